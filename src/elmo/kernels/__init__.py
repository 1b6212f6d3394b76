"""Compiled inner loops over NumPy arrays, each with a NumPy twin in the same module.

The C sources are in csrc/; library.py opens what was built from them. The twins are what tests compare the library
with, and what runs where nothing was compiled.
"""
