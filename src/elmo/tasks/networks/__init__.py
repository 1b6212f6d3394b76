"""The bricks of task networks: tensors in, tensors out."""
