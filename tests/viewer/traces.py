"""Traces that tests look at: made by real runs, and by hand where a planner would need a model."""

import json

from llm_planning.cli import main
from llm_planning.trace_file import encode_trace
from llm_serving.chat import ChatFormat
from llm_serving.models import resolve
from llm_serving.request import Message

MODEL = "smollm2-135m-instruct"

RUNS = {
    "too": "run too --task cook-meat --set roles=rules --model none",
    "drip": "run drip --domain blocksworld --set reading=redo --set roles=rules --model none",
    "uct": "run uct --domain household --set class=comp --set moves=4 --model none",
    "llm-mcts-plus": "run llm-mcts-plus --set roles=rules --set moves=6 --model none",
    "xenon": "run xenon --model none --task wood --set roles=table12 --set plans=0 --set steps=6",
    "mc-dml": "run mc-dml-uct --model none --task trap-door --set moves=2 "
    "--set simulations_per_action=3 --set remember=off",
}
"""A run of each planner, quick and without a model."""

EVIL = "</script><img src=x onerror=alert(1)>\u2028<!-- ${'`'} &amp;"
"""What would be a page's end if it were read as HTML."""


def run(name, folder, *more):
    """The trace of a run."""
    path = folder / f"{name}.jsonl"
    assert main([*RUNS[name].split(), *more, "--trace", str(path)]) == 0
    return path


def asked(text=EVIL):
    """The events of a small search that asks a model, with a text in every place."""
    question = {
        "role": "propose", "model": text, "asked": "generate", "system": "p",
        "turns": [{"role": "user", "text": f"Goal: {text}"}], "temperature": 0.0, "sample": 0,
        "answer": text, "finish": "stop", "prompt_tokens": 50, "cached_tokens": 30,
        "completion_tokens": 7, "replayed": 0, "seconds": 0.2,
        "simulation": 1, "tree": 0, "node": 0,
    }  # fmt: skip
    scored = {
        "role": "prior", "model": "tiny", "asked": "score", "system": None, "turns": [],
        "choices": [text, "dig"], "logprobs": [-0.5, "-inf"], "prompt_tokens": 5,
        "cached_tokens": 0, "completion_tokens": 0, "replayed": 0, "seconds": 0.1,
        "shared": {"tokens": 3, "cached_tokens": 0, "requests": 2},
        "simulation": 1, "tree": 0, "node": 0, "about": text, "edge": "0.0",
    }  # fmt: skip
    walk = {"tree": 0, "nodes": [0, 1], "edges": ["0.0"], "descent": 1, "rewards": [1.0]}
    moved = {"observation": f"Night. {text}", "text": text}
    return [
        {"type": "prompt", "at": 0.0, "id": "p", "model": "tiny", "text": text, "tokens": 20},
        {"type": "belief", "at": 0.0, "belief": {text: {"plains": 0.7, "forest": 0.3}}},
        {"type": "node", "at": 0.0, "tree": 0, "id": 0, "edge": None, "observation": None},
        {"type": "search", "at": 0.0, "tree": 0, "root": 0},
        {"type": "role", "at": 0.1, **question},
        {"type": "role", "at": 0.3, **scored},
        {"type": "edges", "at": 0.4, "tree": 0, "node": 0, "actions": [text, "dig"],
         "priors": [0.9, 0.1], "first_play": [0.0, 0.0]},
        {"type": "node", "at": 0.4, "tree": 0, "id": 1, "edge": "0.0", **moved},
        {"type": "simulation", "at": 0.4, "number": 1, **walk, "tail": 0.5, "N": [1], "Q": [1.5],
         "note": text},
        {"type": "simulation", "at": 0.5, "number": 2, **walk, "tail": 0.0, "N": [2], "Q": [1.25],
         "note": None},
        {"type": "decision", "at": 0.6, "tree": 0, "root": 0, "simulations": 2, "left_out": 0,
         "visits": 2, "value": 1.2, "edges": ["0.0", "0.1"], "N": [2, 0], "Q": [1.25, 0.0]},
        {"type": "memory", "at": 0.6, "kind": "reflection", "text": text},
        {"type": "execution", "at": 0.7, "action": text, "reward": 1.0, "text": text,
         "obstacle": text, "done": True},
        {"type": "load", "at": 0.7, "batch": 2, "waiting": 1, "capacity": 4},
    ]  # fmt: skip


def counted(events, cached):
    """The same, with the first question asked of the bundled model.

    Args:
        cached: what the part of its prompt that was cached ends with.
    """
    chat = ChatFormat(resolve(MODEL).path)
    question, system = events[4], events[0]["text"]
    (turn,) = question["turns"]
    ids = chat.encode([Message("system", system), Message("user", turn["text"])])
    number = next(end for end in range(len(ids)) if chat.decode(ids[:end]).endswith(cached))
    counts = {"prompt_tokens": len(ids), "cached_tokens": number}
    return [*events[:4], question | {"model": MODEL} | counts, *events[5:]]


def learning(text=EVIL):
    """The events of an agent that learns what a bow needs, with a text in every place."""
    logs = {"requires": {}, "action": "mine", "known": "learnt"}
    stick = {"requires": {"logs": 2}, "action": None, "known": "predicted"}
    bow = {"requires": {"stick": 3, text: 1}, "action": None, "known": "predicted"}
    failed = {"action": "craft 1 bow", "reward": 0.0, "text": text, "obstacle": text, "done": False}
    learnt = {"requires": {"stick": 2}, "action": "craft", "known": "learnt"}
    odd = {"requires": {text: 1}, "action": text, "known": text}
    return [
        {"type": "graph", "at": 0.0, "items": {"logs": logs, "stick": stick, "bow": bow}},
        {"type": "execution", "at": 0.1, **failed},
        {"type": "graph", "at": 0.1, "items": {"bow": {**bow, "known": "wrong"}}},
        {"type": "graph", "at": 0.2, "items": {text: odd, "": None}},
        {"type": "execution", "at": 0.3, **failed, "obstacle": None, "done": True},
        {"type": "graph", "at": 0.3, "items": {"bow": learnt}},
    ]


def written(path, events, *, success=True, text=EVIL):
    """Writes events as a whole trace."""
    header = {"planner": text, "domain": "d", "task": text, "model": "tiny", "seed": 0}
    outcome = {"success": success, "plan": [text], "metrics": {text: text}, "seconds": 0.7}
    content = encode_trace({"goal": text}, events=events, header=header, outcome=outcome)
    path.write_bytes(content)
    return path


def lines_of(path):
    """The lines of a trace's file."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]
