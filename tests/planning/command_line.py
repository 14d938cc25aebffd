"""Runs `llm-planning` in this process, as a test sees it: exit code and what was written."""

import contextlib
import io
import json
import sys
from dataclasses import dataclass

from llm_planning.cli import main


@dataclass(frozen=True)
class Ended:
    exit_code: int
    stdout: str
    stderr: str

    @property
    def output(self):
        return self.stdout + self.stderr


class Keyboard(io.StringIO):
    def isatty(self):
        return True


def invoke(*arguments, typed=None):
    """Runs a command; with `typed`, its standard input is a terminal on which that is typed."""
    out, err = io.StringIO(), io.StringIO()
    stdin, sys.stdin = sys.stdin, io.StringIO() if typed is None else Keyboard(typed)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([str(argument) for argument in arguments])
    finally:
        sys.stdin = stdin
    return Ended(code, out.getvalue(), err.getvalue())


def answer(*arguments):
    """What a command answers with `--json`: its last line, as values."""
    ended = invoke(*arguments, "--json")
    assert ended.exit_code == 0, ended.output
    return json.loads(ended.stdout.splitlines()[-1])


def refused(*arguments, code=2):
    """The one line with which a command ends that prints no answer."""
    ended = invoke(*arguments)
    assert (ended.exit_code, ended.stdout) == (code, ""), ended.output
    (line,) = ended.stderr.splitlines()
    assert line.startswith("error: ")
    assert line.isprintable()
    return line
