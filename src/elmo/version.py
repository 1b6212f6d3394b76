"""The version of this package; stated only here."""

__version__ = "0.3.0"
