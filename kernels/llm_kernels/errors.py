"""What can go wrong in similarity search, each with its remedy in the message."""

from __future__ import annotations


class SimilarityError(Exception):
    """Base of every error that this layer raises on purpose."""


class VectorError(SimilarityError, ValueError):
    """Vectors that cannot be searched: wrong shape, dtype or device, zero, NaN or Inf."""


class EntryError(SimilarityError, ValueError):
    """Keys or payloads that an index cannot take in, does not hold or holds already."""


class BackendError(SimilarityError, RuntimeError):
    """A search backend that does not exist or cannot run here."""


class IndexFileError(SimilarityError, ValueError):
    """A saved index that is missing, truncated, tampered with, or of another version."""
