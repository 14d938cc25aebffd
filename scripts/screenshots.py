"""Makes the pictures of pages in `docs/images`, in Debian's chromium.

    python scripts/screenshots.py

Each is a page of a run or of a small sweep that this script makes, without a model, so the pictures
change only when a page does. Whoever changes a page looks at them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from playwright.sync_api import Page

IMAGES = Path(__file__).parents[1] / "docs" / "images"

RUNS = {
    "too": "run too --task craft-a-compass --set roles=rules",
    "too-erring": "run too --task craft-a-compass --set roles={roles}",
    "uct": "run uct --task coin-collector --set level=205 --set simulations=60",
    "mc-dml": "run mc-dml --task coin-collector --set level=205 --set roles=rules --set C=5",
    "drip": "run drip --domain blocksworld --set problem=7 --set reading=redo --set roles=rules",
    "llm-mcts-plus": "run llm-mcts-plus --set class=novel-comp-2 --set roles=rules",
    "xenon": "run xenon --set steps=400 --set requirements=3 --set actions=3",
}
"""Name -> the run whose trace is shown."""

SWEEP = """\
name: little-matrix
model: none
seeds: {from: 1, to: 4}
grids:
  - domain: minecraft
    tasks: [cook-meat, obtain-leather, craft-a-compass]
    planners: [too, too-plus, tot-mcts, react-option]
    settings: {roles: [rules, ROLES]}
  - domain: blocksworld
    tasks: four-blocks
    planners: [too, too-plus, tot-mcts, react-option]
    settings: {roles: [rules, ROLES], problem: {from: 1, to: 3}}
"""
"""A sweep with two worlds; ROLES is a file of roles that err."""

ROLES = "configs/too/oracles/independent-20.yaml"


_DRAWN = 1000
"""Milliseconds in which a page is drawn."""

_UNDER_WAY = 20_000
"""Milliseconds after which a good part of the sweep has run."""

_COMMAND = (sys.executable, "-m", "llm_planning.cli")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """A picture.

    Attributes:
        name: of its file.
        pages: the runs on the page; none for the page of the sweep.
        width: of the window, in pixels.
        height: likewise.
        theme: of the page.
    """

    name: str
    pages: tuple[str, ...] = ()
    width: int = 1280
    height: int = 800
    theme: Literal["light", "dark"] = "light"


SHOTS = (
    Shot(name="trial", pages=("too",), height=1000),
    Shot(name="trial-dark", pages=("uct",), theme="dark"),
    Shot(name="mc-dml", pages=("mc-dml",)),
    Shot(name="drip", pages=("drip",), height=1400),
    Shot(name="llm-mcts-plus", pages=("llm-mcts-plus",), theme="dark"),
    Shot(name="side-by-side", pages=("too", "too-erring"), width=1600),
    Shot(name="phone", pages=("too",), width=400),
    Shot(name="xenon", pages=("xenon",), height=1400),
    Shot(name="sweep", height=1500),
)
LIVE = Shot(name="live", height=1000)


def main() -> int:
    """Makes all pictures.

    Returns:
        0; or 1 if there is no browser.
    """
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        print("chromium is missing: make chromium", file=sys.stderr)
        return 1
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name, line in RUNS.items():
            words = line.format(roles=ROLES).split()
            _llm_planning([*words, "--model", "none", "--trace", str(folder / f"{name}.jsonl")])
        config = folder / "little-matrix.yaml"
        config.write_text(SWEEP.replace("ROLES", ROLES))
        _llm_planning(["sweep", "run", str(config), "--out", str(folder / "sweep")])
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            for shot in SHOTS:
                page = browser.new_context(
                    viewport={"width": shot.width, "height": shot.height}, color_scheme=shot.theme
                ).new_page()
                page.goto(_page(shot, folder).as_uri())
                _take(page, shot)
            with _running(config, folder / "live") as link:
                page = browser.new_page(viewport={"width": LIVE.width, "height": LIVE.height})
                page.goto(link)
                page.wait_for_timeout(_UNDER_WAY)
                _take(page, LIVE)
            browser.close()
    return 0


def _take(page: Page, shot: Shot) -> None:
    page.wait_for_selector("h1")
    page.wait_for_timeout(_DRAWN)
    page.screenshot(path=IMAGES / f"{shot.name}.png")
    print(IMAGES / f"{shot.name}.png")


@contextmanager
def _running(config: Path, folder: Path) -> Iterator[str]:
    """Runs a sweep and its live page, whose link it gives."""
    sweep = subprocess.Popen([*_COMMAND, "sweep", "run", str(config), "--out", str(folder)])
    while not (folder / "ledger.sqlite").exists() and sweep.poll() is None:
        time.sleep(0.1)
    view = [*_COMMAND, "view", str(folder), "--live"]
    with subprocess.Popen(view, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.terminate()
    sweep.wait()


def _page(shot: Shot, folder: Path) -> Path:
    """The page of a picture."""
    if not shot.pages:
        _llm_planning(["view", str(folder / "sweep"), "--trials", "none"])
        return folder / "sweep" / "pages" / "index.html"
    traces = [str(folder / f"{name}.jsonl") for name in shot.pages]
    _llm_planning(["view", *traces, "--out", str(folder / f"{shot.name}.html")])
    return folder / f"{shot.name}.html"


def _llm_planning(arguments: Sequence[str]) -> None:
    subprocess.run([*_COMMAND, *arguments], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main())
