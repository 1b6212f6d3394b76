"""A prepared corpus -> a trained language model: read, learned, validated, saved, resumed."""
