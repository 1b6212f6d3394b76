"""Compiled inner loops over NumPy arrays, each with a NumPy version in the same module.

The C sources are in csrc/; library.py opens the library built from them. Tests compare the library with the NumPy
versions, which also run if nothing was compiled.
"""
