"""Fast inference: from batches to layers of vectors, sentence vectors, scores and substitutes."""
