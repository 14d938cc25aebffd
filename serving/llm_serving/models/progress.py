"""Progress on a terminal, silence in a pipe."""

from __future__ import annotations

import io
import sys
from contextlib import contextmanager, redirect_stderr
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import Progress


def progress() -> Progress:
    """A bar on standard error that draws nothing unless that is a terminal."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    from llm_serving.terminal import SafeConsole

    # Bound to the stream of this moment: conversion redirects `sys.stderr` while the bar lives.
    console = SafeConsole(file=sys.stderr)
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keeps transformers' own bars and advice out of standard error while a file is converted."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        # One of its bars obeys no switch, so all of them are caught.
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.set_verbosity(verbosity)


@contextmanager
def quiet_hub() -> Iterator[None]:
    """Leaves the hub's own bars to terminals."""
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    if sys.stderr.isatty() or are_progress_bars_disabled():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()
