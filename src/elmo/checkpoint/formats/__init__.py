"""One file a foreign format: into a Checkpoint and, where it makes sense, back."""
