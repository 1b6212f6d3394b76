"""Models of other programs, one module per format."""
