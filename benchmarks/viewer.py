"""How a large trace opens in a browser: seconds, frames a second while it is moved, memory.

The trace is made here: a search tree of 100,000 nodes with their states, as many simulations, and
questions with prompts, 100 MB in all. `llm-planning view` makes its page, which Debian's `chromium`
opens from disk. It is usable when its tree is drawn and a node can be selected. Then the tree is
moved for two seconds, first as it opens, then with all nodes unfolded; a frame counts when the
browser asks for the next. Memory is that of the browser's process for the page, from `/proc`.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from harness import Finding, medians, parser, report

from llm_planning.viewer.reading import read_trace
from llm_planning.viewer.trial_page import trial_page

if TYPE_CHECKING:
    from playwright.sync_api import Page

NODES = 100_000
BYTES = 100_000_000
SECONDS = 3.0
FRAMES = 30.0
GIB = 1.0
REPEATS = 3

WORDS = ("oak", "log", "stone", "table", "door", "red", "key", "north", "lamp", "iron", "pig")
MOVE = """async () => {
  const canvas = document.querySelector(".tree canvas");
  const at = (kind, x, y) => canvas.dispatchEvent(new PointerEvent(kind, {
    pointerId: 1, clientX: x, clientY: y, bubbles: true}));
  const box = canvas.getBoundingClientRect();
  canvas.setPointerCapture = () => undefined;
  at("pointerdown", box.x + 300, box.y + 200);
  const begun = performance.now();
  let frames = 0;
  while (performance.now() - begun < 2000) {
    const turn = frames / 8;
    at("pointermove", box.x + 300 + 120 * Math.cos(turn), box.y + 200 + 120 * Math.sin(turn));
    await new Promise(requestAnimationFrame);
    frames += 1;
  }
  at("pointerup", box.x, box.y);
  return frames / (performance.now() - begun) * 1000;
}"""


def synthetic(path: Path) -> None:
    """Writes a trace of `NODES` nodes and about `BYTES` bytes."""
    draw = random.Random(0)

    def text_of(size: int) -> str:
        return " ".join(draw.choices(WORDS, k=size // 5))

    with path.open("w", encoding="utf-8") as file:
        lines = 0

        def emit(kind: str, /, **fields: object) -> None:
            nonlocal lines
            lines += 1
            file.write(json.dumps({"type": kind, **fields}, separators=(",", ":")) + "\n")

        emit("header", format="llm-planning trace", version=1, planner="synthetic", task="large")
        emit("node", at=0.0, tree=0, id=0, edge=None, observation=None, text="")
        emit("search", at=0.0, tree=0, root=0)
        paths: list[tuple[list[int], list[str]]] = [([0], [])]
        degree = [0]
        emit("prompt", at=0.0, id="p", model="m", text=text_of(2000), tokens=400)
        while len(paths) < NODES:
            nodes, edges = paths[int(len(paths) * draw.random() ** 1.5)]
            parent, node = nodes[-1], len(paths)
            if degree[parent] == 0:
                actions = [f"{word} {text_of(10)}" for word in draw.sample(WORDS, 6)]
                emit("edges", at=node / 1e3, tree=0, node=parent, actions=actions,
                     priors=[1 / 6] * 6, first_play=[0.0] * 6)  # fmt: skip
            if degree[parent] == 6:
                continue
            edge = f"{parent}.{degree[parent]}"
            degree[parent] += 1
            degree.append(0)
            path_of = ([*nodes, node], [*edges, edge])
            paths.append(path_of)
            state = text_of(330)
            emit("node", at=node / 1e3, tree=0, id=node, edge=edge, observation=state, text="")
            if node % 10 == 0:
                turns = [{"role": "user", "text": text_of(900)}]
                emit("role", at=node / 1e3, role="propose", model="m", asked="generate", system="p",
                     turns=turns, temperature=0.0, sample=0, answer=text_of(80), finish="stop",
                     prompt_tokens=600, cached_tokens=500, completion_tokens=20, replayed=0,
                     seconds=0.1, simulation=node, tree=0,
                     node=parent)  # fmt: skip
            depth = len(path_of[1])
            emit("simulation", at=node / 1e3, tree=0, number=node, nodes=path_of[0],
                 edges=path_of[1], descent=depth, rewards=[0.0] * depth, tail=draw.random(),
                 N=[draw.randrange(1, 50) for _ in range(depth)],
                 Q=[draw.random() for _ in range(depth)], note=None)  # fmt: skip
        while file.tell() < BYTES:
            emit(
                "execution", at=100.0, action=text_of(20), reward=0.0, text=text_of(400), done=False
            )
        emit("end", lines=lines + 1)


def renderer_bytes(profile: Path) -> int:
    """Resident bytes of the largest process of the browser that shows a page."""
    largest = 0
    for folder in Path("/proc").iterdir():
        try:
            command = (folder / "cmdline").read_bytes()
            pages = int((folder / "statm").read_text().split()[1])
        except (OSError, ValueError, IndexError):
            continue
        if b"--type=renderer" in command and str(profile).encode() in command:
            largest = max(largest, pages * os.sysconf("SC_PAGE_SIZE"))
    return largest


def opened(page: Page, address: str) -> float:
    """Opens the page; seconds until its tree is drawn."""
    begun = perf_counter()
    page.goto(address, wait_until="commit")
    page.wait_for_selector("html[data-ready]", timeout=60_000)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    return perf_counter() - begun


def main() -> None:
    """Runs the benchmark."""
    options = parser(__doc__).parse_args()
    browser = shutil.which("chromium")
    if browser is None:
        sys.exit("this benchmark needs Debian's chromium: make browser")
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        trace, target = Path(folder, "large.jsonl"), Path(folder, "large.html")
        profile = Path(folder, "profile")
        synthetic(trace)
        begun = perf_counter()
        target.write_bytes(trial_page([read_trace(trace)]))
        writing = perf_counter() - begun
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=browser, viewport={"width": 1440, "height": 900},
            args=["--no-sandbox"],
        )  # fmt: skip
        page = context.pages[0]
        seconds = medians({"opened": lambda: opened(page, target.as_uri())}, repeats=REPEATS)[
            "opened"
        ]
        frames = page.evaluate(MOVE)
        page.get_by_role("button", name="Unfold all").click()
        unfolded = page.evaluate(MOVE)
        memory = renderer_bytes(profile)
        sizes = {"trace": trace.stat().st_size, "page": target.stat().st_size}
        context.close()
    findings = [
        Finding(label=f"a trace of {NODES:,} nodes opens", measured=seconds, unit="s",
                bound="at most", target=SECONDS, details={**sizes, "written in s": writing}),
        Finding(label="frames a second while it moves", measured=frames, unit="",
                bound="at least", target=FRAMES),
        Finding(label="the same, all nodes unfolded", measured=unfolded, unit="",
                bound="at least", target=FRAMES),
        Finding(label="memory of the page", measured=memory / 2**30, unit="GiB",
                bound="at most", target=GIB),
    ]  # fmt: skip
    report("viewer", findings, as_json=options.json)


if __name__ == "__main__":
    main()
