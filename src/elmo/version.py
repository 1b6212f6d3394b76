"""The version of this package; stated here alone."""

__version__ = "0.1.0"
