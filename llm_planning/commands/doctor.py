"""`llm-planning doctor`: what this machine can run, what is missing, and the remedies."""

from __future__ import annotations

import typer

from llm_planning.commands.options import JsonOption  # noqa: TC001 - typer reads it


def doctor(*, as_json: JsonOption = False) -> None:
    """Says what this machine can run, what is missing, and how to get it.

    Exits with 0 if everything that the bundled model needs is there, otherwise with 1.
    """
    from dataclasses import asdict

    from rich.table import Table

    from llm_base.terminal import SafeConsole, literal, say_json
    from llm_planning.commands.doctor_checks import examine

    checks = examine()
    ok = all(check.status != "missing" for check in checks)
    if as_json:
        say_json({"ok": ok, "checks": [asdict(check) for check in checks]})
        raise typer.Exit(0 if ok else 1)
    styles = {"ok": "green", "missing": "bold red", "warning": "yellow"}
    table = Table("", "check", "found", show_edge=False)
    for column in table.columns:
        column.overflow = "fold"
    for check in checks:
        status = literal(check.status, styles[check.status])
        table.add_row(status, literal(check.name), literal(check.detail))
    console = SafeConsole()
    console.print(table)
    # Below the table, where nothing is folded: commands stay whole when they are copied.
    for check in checks:
        if check.remedy:
            line = literal(f"{check.name}: ", styles[check.status]) + literal(check.remedy)
            console.print(line, soft_wrap=True)
    raise typer.Exit(0 if ok else 1)
