"""What a model and its training know, in numbers and pictures."""
