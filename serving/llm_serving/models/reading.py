"""Reading a model's folder with libraries that raise and print anything."""

from __future__ import annotations

import io
from contextlib import contextmanager, redirect_stderr
from typing import TYPE_CHECKING, Any

from llm_serving.errors import EngineConfigError, ServingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_LONGEST_REASON = 600


@contextmanager
def reading_model(fails: Callable[[str], ServingError]) -> Iterator[None]:
    """Turns what a library raises over a model's folder into one error of this layer.

    Args:
        fails: makes that error from a reason of one short line.
    """
    try:
        yield
    except ServingError:
        raise
    except Exception as error:
        raise fails(reason_of(error)) from error
    except BaseException as error:
        # A panic in a library in Rust is not an `Exception`.
        if type(error).__name__ != "PanicException":
            raise
        raise fails(reason_of(error)) from error


def reason_of(error: BaseException) -> str:
    """The type and the text of an error, in one short line."""
    reason = " ".join(str(error).split())
    if len(reason) > _LONGEST_REASON:
        reason = f"{reason[:_LONGEST_REASON]}..."
    return f"{type(error).__name__}: {reason}" if reason else type(error).__name__


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keeps transformers' own bars and advice out of standard error while it reads a folder."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        # One of its bars obeys no switch, so all of them are caught.
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.set_verbosity(verbosity)


def read_tokenizer(folder: Path) -> Any:  # noqa: ANN401 - a transformers class
    """Reads the tokenizer of a model's folder.

    Raises:
        EngineConfigError: the folder has no tokenizer that can be used.
    """
    from transformers import AutoTokenizer

    def failed(reason: str) -> EngineConfigError:
        return EngineConfigError(f"the tokenizer in {folder} cannot be read: {reason}")

    with reading_model(failed), quiet_transformers():
        tokenizer = AutoTokenizer.from_pretrained(
            str(folder), trust_remote_code=False, local_files_only=True
        )
        if not isinstance(tokenizer.eos_token_id, int):
            raise failed("it has no token that ends an answer (eos_token)")
        return tokenizer
