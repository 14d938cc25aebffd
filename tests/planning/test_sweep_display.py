"""What a running sweep shows, and that showing it is cheap."""

import io
import time
from dataclasses import replace

import pytest
from rich.console import Console

import llm_planning.experiments.display as display_module
from llm_planning.experiments.display import (
    Display,
    Speed,
    clock,
    facts,
)
from llm_planning.experiments.pool import PoolLoad
from llm_planning.experiments.scheduler import Progress

LOAD = PoolLoad(
    running=20, waiting=3, written_tokens=4000, prompt_tokens=1000, cached_tokens=750, preempted=2
)
HALF = Progress(total=100, kept=10, done=38, failed=2, running=9, retried=1, seconds=80, load=LOAD)


def console_of(*, terminal):
    return Console(file=io.StringIO(), force_terminal=terminal, width=200)


def text_on(console):
    return console.file.getvalue()


def test_what_is_left_is_judged_by_the_pace_of_this_run():
    assert HALF.finished == 50
    assert HALF.left == 50
    assert HALF.remaining_seconds == 100  # 40 trials in 80 s
    assert replace(HALF, done=0, failed=0).remaining_seconds is None


def test_a_later_part_goes_on_counting():
    whole = Progress(total=300, kept=20)
    first = replace(HALF, kept=0).after(whole)
    assert (first.total, first.kept, first.finished, first.left) == (300, 20, 60, 240)
    second = replace(HALF, total=60).after(first)
    assert (second.done, second.failed, second.seconds) == (76, 4, 160)
    assert second.load == replace(
        LOAD, written_tokens=8000, prompt_tokens=2000, cached_tokens=1500, preempted=4
    )


def test_the_facts():
    assert dict(facts(HALF, 51.4)) == {
        "done": "38",
        "failed": "2",
        "running": "9",
        "tokens/s": "51",
        "prefix cache": "75%",
        "batch": "20+3",
        "elapsed": "1:20 min",
        "left": "1:40 min",
        "kept": "10",
        "retried": "1",
        "preempted": "2",
    }
    assert dict(facts(Progress(total=3), 0.0))["left"] == "-"


def test_the_speed_is_that_of_the_last_seconds():
    speed = Speed()
    assert speed(0.0, 0) == 0.0
    assert speed(2.0, 100) == 50.0
    for second in range(3, 31):
        latest = speed(float(second), 100 + 10 * (second - 2))
    assert latest == pytest.approx(10.0)


def test_the_speed_between_rare_looks_is_a_mean():
    speed = Speed()
    speed(30.0, 600)
    assert speed(60.0, 1800) == 40.0
    assert speed(90.0, 1800) == 0.0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59.4, "59 s"), (185, "3:05 min"), (3599.6, "1:00 h"), (25920, "7:12 h")],
)
def test_clock(seconds, text):
    assert clock(seconds) == text


def test_a_terminal_gets_a_live_picture():
    console = console_of(terminal=True)
    with Display(console, name="too-scaling") as display:
        display(HALF)
    text = text_on(console)
    assert "too-scaling" in text
    assert "50 of 100" in text
    assert "20+3" in text


def test_a_pipe_gets_nothing(monkeypatch):
    monkeypatch.setattr(display_module, "REFRESH_EVERY", 0.0)
    console = console_of(terminal=False)
    with Display(console, name="too-scaling") as display:
        display(HALF)
    assert text_on(console) == ""


def test_showing_costs_less_than_a_hundredth(monkeypatch):
    """Pictures are drawn no oftener than they should be, and one takes far less than 5 ms."""
    apart = 0.2
    monkeypatch.setattr(display_module, "REFRESH_EVERY", apart)
    display = Display(console_of(terminal=True), name="too-scaling")
    drawn = []
    draw = display._draw

    def counted(progress):
        begun = time.thread_time()
        draw(progress)
        drawn.append(time.thread_time() - begun)

    display._draw = counted
    with display:
        begun = time.monotonic()
        while (wall := time.monotonic() - begun) < 3 * apart:
            display(replace(HALF, seconds=80 + wall))
            time.sleep(0.001)
        assert len(drawn) <= 4
        for _ in range(50):
            counted(HALF)
    # The median of the thread's own time: what else the machine does is not counted.
    assert sorted(drawn)[len(drawn) // 2] < 0.005
