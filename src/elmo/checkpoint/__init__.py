"""What a saved model is, where it comes from, and the formats of other programs."""
