"""A prepared corpus -> a trained language model: batches, losses, updates, validation, checkpoints, resuming."""
