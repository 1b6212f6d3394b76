"""The fast path from packed batches to layers of vectors."""
