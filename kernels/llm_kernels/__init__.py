"""Similarity search over embedding vectors: the lowest layer, which imports no other."""
