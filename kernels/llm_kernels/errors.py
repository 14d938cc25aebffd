"""What can go wrong in similarity search, each with its remedy in the message."""

from __future__ import annotations


class SimilarityError(Exception):
    """Base of every error that this layer raises on purpose.

    Example:
        >>> from llm_kernels import EmbeddingIndex, SimilarityError
        >>> try:
        ...     EmbeddingIndex(2).add(["a", "b"], [[1, 0], [0, 0]])
        ... except SimilarityError as error:
        ...     print(error)
        the vector of key 'b' is zero: a zero vector has no direction, leave it out
    """


class VectorError(SimilarityError, ValueError):
    """Vectors that cannot be searched: wrong shape, dtype or device, zero, NaN or Inf.

    Example:
        >>> from llm_kernels import EmbeddingIndex, VectorError
        >>> try:
        ...     EmbeddingIndex(2).search([1, 0, 0], k=1)
        ... except VectorError as error:
        ...     print(error)
        vectors have shape [1, 3] instead of [rows, 2], the dimension that the index was made for
    """


class EntryError(SimilarityError, ValueError):
    """Keys or payloads that an index cannot take in, does not hold or holds already.

    Example:
        >>> from llm_kernels import EmbeddingIndex, EntryError
        >>> try:
        ...     EmbeddingIndex(2).vector("a")
        ... except EntryError as error:
        ...     print(error)
        key 'a' is not in the index: see keys
    """


class BackendError(SimilarityError, RuntimeError):
    """A search backend that does not exist or cannot run here.

    Example:
        >>> from llm_kernels import BackendError, EmbeddingIndex
        >>> try:
        ...     EmbeddingIndex(2, backend="abacus")
        ... except BackendError as error:
        ...     print(error)
        no backend is called 'abacus': choose one of auto, triton, faiss, torch, numpy
    """


class IndexFileError(SimilarityError, ValueError):
    """A saved index that is missing, damaged or no index.

    Example:
        >>> from llm_kernels import EmbeddingIndex, IndexFileError
        >>> try:
        ...     EmbeddingIndex.load("nowhere")
        ... except IndexFileError as error:
        ...     print(error)
        nowhere cannot be read: No such file or directory; build an index and save it there
    """
