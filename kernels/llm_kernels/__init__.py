"""Similarity search over embedding vectors: the lowest layer, which imports neither of the others."""
