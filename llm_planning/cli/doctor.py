"""The command line of `llm-planning doctor`."""

from __future__ import annotations

from functools import partial

from llm_planning.cli.options import JsonOption, Work  # noqa: TC001 - typer reads them


def doctor(*, as_json: JsonOption = False) -> Work:
    """Says what this machine can run, what is missing, and how to get it.

    Exits with 0 if everything that the bundled model needs is there, otherwise with 1.
    """
    from llm_planning.commands import doctor as commands

    return partial(commands.doctor, as_json=as_json)
