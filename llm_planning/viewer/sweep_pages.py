"""The pages of a sweep: its own, those of its trials, and the live one."""

from __future__ import annotations

import json
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llm_base.files import make_folder, new_file, write_durably
from llm_planning.experiments.ledger import LedgerError
from llm_planning.experiments.runs import read_trials
from llm_planning.viewer.page import page
from llm_planning.viewer.reading import ReadTrace
from llm_planning.viewer.sweep_data import link, spread, sweep_data
from llm_planning.viewer.trial_page import trial_page

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from llm_planning.experiments.ledger import Ledger

INDEX = "index.html"
"""The sweep's page in the folder of its pages."""

TRIALS = "trials"
"""The folder beside it, with a page for each of some trials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Counts of a sweep's pages, and the pages that are missing.

    Attributes:
        traces: trials that left a trace.
        pages: of trials.
        unreadable: why a trial that should have a page has none, for each such trial.
    """

    trials: int
    traces: int
    pages: int
    unreadable: tuple[str, ...]


def write_pages(ledger: Ledger, index: Path, *, most: int) -> Written:
    """Writes the page of a sweep, after those of its trials.

    Args:
        index: the file of the sweep's page; its folder is made if it is missing.
        most: trials that get a page, at most.

    Raises:
        LedgerError: the ledger cannot be read.
        MeasureError: a metric that is measured is not a number.
        OSError: a page cannot be written.
    """
    trials = read_trials(ledger)
    # Before anything is written, as it may refuse the ledger.
    data = sweep_data(ledger.sweep, ledger.provenances, trials)
    wanted = spread(trials, most)
    paged, unreadable = set(), []
    with _whole() as files:
        files.folder(index.parent)
        if wanted:
            files.folder(index.parent / TRIALS)
        for trial in wanted:
            try:
                content = trace_page(ledger, trial.key, trial.trace_sha256 or "")
            except LedgerError as error:
                unreadable.append(str(error))
                continue
            files.write(index.parent / TRIALS / f"{trial.key}.html", content)
            paged.add(trial.key)
        link(data, paged)
        block = json.dumps(data, allow_nan=False).encode()
        # Last, so that its links lead somewhere.
        write_durably(index, page("sweep", title=str(data["name"]), blocks={"sweep": block}))
    return Written(
        trials=len(trials),
        traces=sum(trial.trace_sha256 is not None for trial in trials),
        pages=len(paged),
        unreadable=tuple(unreadable),
    )


def trace_page(ledger: Ledger, key: str, sha256: str) -> bytes:
    """The page of a trial.

    Args:
        sha256: of the trace that it left.

    Raises:
        LedgerError: the trace is missing, or not the one that the trial left.
    """
    events = ledger.trace(key, sha256)
    header = events[0] if "format" in events[0] else {}
    events = [event for event in events if event["type"] not in {"header", "end"}]
    name = f"seed {header['seed']}" if "seed" in header else key[:8]
    return trial_page([ReadTrace(name=name, header=header, events=events, damage=())])


def live_page() -> bytes:
    """The page that shows a sweep while it runs; its data come from the server that sends it."""
    return page("live", title="A sweep", blocks={}, allow=("connect-src 'self'",))


class _Files:
    """New files and folders, which can be taken back."""

    def __init__(self) -> None:
        self._new: list[Path] = []

    def folder(self, path: Path) -> None:
        """Makes a folder and those above it."""
        missing = [folder for folder in (path, *path.parents) if not folder.is_dir()]
        self._new += reversed(missing)
        make_folder(path)

    def write(self, path: Path, content: bytes) -> None:
        """Writes a file whole or not at all.

        Unlike `write_durably` it does not wait for the disk: a thousand pages that a power cut
        takes are made again.
        """
        part = path.with_name(f".{path.name}.part")
        try:
            with new_file(part) as file:
                file.write(content)
            if not path.exists():
                self._new.append(path)
            part.replace(path)
        except BaseException:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            raise

    def take_back(self) -> None:
        """Removes what was made."""
        for path in reversed(self._new):
            with suppress(OSError):
                if path.is_dir():
                    path.rmdir()
                else:
                    path.unlink()


@contextmanager
def _whole() -> Iterator[_Files]:
    """Takes back what was made if the work inside does not come to its end."""
    files = _Files()
    try:
        yield files
    except BaseException:
        files.take_back()
        raise
