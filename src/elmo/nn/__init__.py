"""Tensors in, tensors out: no files, no text, no configuration objects."""
