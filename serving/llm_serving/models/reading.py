"""Reading a model's folder with libraries that raise and print anything."""

from __future__ import annotations

import io
from contextlib import contextmanager, redirect_stderr
from typing import TYPE_CHECKING

from llm_serving.errors import ServingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
    said = " ".join(str(error).split())
    if len(said) > _LONGEST_REASON:
        said = f"{said[:_LONGEST_REASON]}..."
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


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
