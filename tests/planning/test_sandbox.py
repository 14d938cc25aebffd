"""Hostile programs, and attacks from behind the seal: none escapes, and its end says why."""

import asyncio
import os
from pathlib import Path

import pytest
from hostile_programs import ENTRY, PRELUDE, javascript, python

from llm_planning.execution import sandbox
from llm_planning.execution.sandbox import (
    CallError,
    Limits,
    ProgramEnd,
    ProgramStop,
    SandboxError,
    run_program,
    why_unsealed,
)

pytestmark = pytest.mark.skipif(why_unsealed() is not None, reason="programs cannot be sealed here")

HERE = str(Path(__file__).parent)
LIMITS = Limits(cpu_seconds=0.3, seconds=3.0, calls=20)
JAVASCRIPT, PYTHON = list(javascript()), list(python())
SHARE = 6
"""One program in so many is run by the quick tests."""

VARIANTS = {
    "root": ((), 1),
    "nobody": (("nobody",), 3),
    "no Landlock": (("no Landlock",), 3),
    "no namespaces": (("no namespaces",), 3),
    "nobody with seccomp alone": (("nobody", "no Landlock", "no namespaces"), 1),
}
"""What is left out of the seal, and one program in how many runs so: the strongest and the weakest
seal meet all of them."""


def as_variant(monkeypatch, *variant):
    """Starts the tests' own process in the place of the package's."""
    names = ", ".join(map(repr, variant))
    serve = f"sys.path.append({HERE!r}); import behind_the_seal; behind_the_seal.serve({names})"
    monkeypatch.setattr(sandbox, "_SERVE", serve)


async def ended(source, *, sources=(PRELUDE,), entry=ENTRY, limits=LIMITS):
    """The end of a program, and the calls of `escaped`."""
    escapes = []

    async def host(name, values):
        if name == "escaped":
            escapes.append(values)
        if values == ["refuse"]:
            raise CallError("this is refused")
        if values == ["long"]:
            return "x" * 60_000
        return {"inventory": {"log": 1}}

    end = await run_program([*sources, source], entry, host, seed=1, limits=limits)
    return end, escapes


def fits(error, verdict):
    allowed = verdict if isinstance(verdict, tuple) else (verdict,)
    return any(
        error is None if verdict is None else error is not None and error.startswith(verdict)
        for verdict in allowed
    )


async def all_of(programs, canary, *, sources=(PRELUDE,)):
    """Runs programs a few at once; returns those that escaped or ended otherwise."""
    wrong, gate = [], asyncio.Semaphore(4)

    async def checked(name, source, verdict):
        async with gate:
            text = source.replace("CANARY", repr(str(canary)))
            end, escapes = await ended(text, sources=sources)
        if escapes or not fits(end.error, verdict):
            wrong.append((name, escapes, end.error, verdict))

    canary.write_text("untouched")
    await asyncio.gather(*(checked(*program) for program in programs))
    assert canary.read_text() == "untouched"
    assert {path.name for path in canary.parent.iterdir()} == {canary.name}
    return wrong


def children():
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


async def test_a_share_of_the_hostile_programs(tmp_path):
    assert await all_of(JAVASCRIPT[::SHARE], tmp_path / "canary") == []


async def test_a_share_of_the_attacks_from_behind_the_seal(tmp_path, monkeypatch):
    as_variant(monkeypatch, "python")
    assert await all_of(PYTHON[::SHARE], tmp_path / "canary", sources=()) == []


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
async def test_no_program_escapes(tmp_path, monkeypatch, variant):
    without, share = VARIANTS[variant]
    if "nobody" in without and os.geteuid() != 0:
        pytest.skip("only root can become nobody")
    as_variant(monkeypatch, *without)
    assert await all_of(JAVASCRIPT[::share], tmp_path / "canary") == []
    as_variant(monkeypatch, "python", *without)
    assert await all_of(PYTHON[::share], tmp_path / "canary", sources=()) == []


async def test_a_process_that_cannot_be_sealed_runs_nothing(monkeypatch):
    for variant in ("second thread", "no privileges to give up"):
        as_variant(monkeypatch, variant)
        why_unsealed.cache_clear()
        assert why_unsealed()
        with pytest.raises(SandboxError):
            await ended("async function main() {}")
    monkeypatch.undo()
    why_unsealed.cache_clear()
    assert why_unsealed() is None


async def test_a_call_reaches_the_host_and_its_answer_comes_back():
    seen = []

    async def host(name, values):
        seen.append((name, list(values)))
        return {"answer": [1, "ü", None, 0.5]}

    program = """
    const call = __call;
    async function main() {
        const told = call("ask", ["a", {"b": [true, 2]}]);
        call("told", [told.answer, told.answer.length]);
    }"""
    end = await run_program([program], "main()", host, seed=0)
    assert end == ProgramEnd(error=None, calls=2)
    assert seen == [("ask", ["a", {"b": [True, 2]}]), ("told", [[1, "ü", None, 0.5], 4])]


async def test_chance_follows_from_the_seed():
    async def drawn(seed):
        numbers = []

        async def host(_, values):
            numbers.extend(values)

        await run_program(["__call('x', [Math.random(), Math.random()])"], "0", host, seed=seed)
        return numbers

    first, same, other = await asyncio.gather(drawn(1), drawn(1), drawn(2))
    assert first == same != other
    assert all(0 <= value < 1 for value in first)


async def test_a_host_may_stop_its_program():
    async def host(*_):
        raise ProgramStop

    end = await run_program(["__call('x', []); for (;;);"], "0", host, seed=0)
    assert end == ProgramEnd(error=None, calls=1)


async def test_an_error_of_the_host_is_raised_and_leaves_no_process():
    async def host(*_):
        raise KeyError("mine")

    before = children()
    with pytest.raises(KeyError):
        await run_program(["__call('x', [])"], "0", host, seed=0)
    assert children() == before


async def test_a_cancelled_program_leaves_no_process():
    before = children()
    running = asyncio.create_task(ended("async function main() { for (;;); }", limits=Limits()))
    while children() == before:  # noqa: ASYNC110 - the system has no event for it
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert children() == before


async def test_the_world_s_time_is_not_the_program_s():
    async def host(*_):
        await asyncio.sleep(1.1)

    limits = Limits(seconds=2.0)  # its process begins in this time, too
    end = await run_program(["__call('x', []); __call('x', [])"], "0", host, seed=0, limits=limits)
    assert end == ProgramEnd(error=None, calls=2)


async def test_too_long_is_one_verdict_by_either_clock():
    loop = "async function main() { for (;;); }"
    by_cpu, by_wall = await asyncio.gather(
        ended(loop, limits=Limits(cpu_seconds=0.2, seconds=20.0)),
        ended(loop, limits=Limits(cpu_seconds=20.0, seconds=0.2)),
    )
    assert by_cpu[0] == by_wall[0]
    assert by_cpu[0].error == sandbox._TOO_LONG


async def test_a_promise_that_never_settles_is_found_at_once():
    """And not by a clock, of which the verdict would be another one."""
    end, _ = await ended("async function main() { await new Promise(() => 0); }", limits=Limits())
    assert end.error == sandbox._UNSETTLED


@pytest.mark.parametrize("name", ["cpu_seconds", "seconds", "memory", "stack", "calls"])
def test_impossible_limits_are_named(name):
    for value in (-1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=name):
            Limits(**{name: value})
