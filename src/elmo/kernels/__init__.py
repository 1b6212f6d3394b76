"""Compiled inner loops, each with a plain torch twin in nn/ and inference/ that tests compare it with.

The C sources are in csrc/; library.py opens what was built from them, the other modules call it with tensors.
"""
