"""A prepared corpus -> static word vectors -> a context layer for a model. Nothing is trained by gradients."""
