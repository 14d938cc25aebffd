"""Opens engines whose core has a process of its own, and prints what happens, a JSON value a line.

    python apart.py FOLDER

There is no guard for `__main__` here: a script that plans has none either. After "working" it waits
for Ctrl-C, after "open again" for its own end.
"""

import asyncio
import json
import multiprocessing
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from lora import with_adapter, write_adapter
from observe import ACTIONS, LONG, Reference, opened
from tiny_llama import build

from llm_serving.errors import ServingError
from llm_serving.request import Request, Sampling, ScoreRequest


def tell(*values):
    print(json.dumps(values), flush=True)


def core():
    """The process of the engine that is open, and the folder that it has on the disk."""
    (process,) = multiprocessing.active_children()
    return process.pid, engine._dispatcher.core._folder.name


async def work():
    """Answers until Ctrl-C, and then once more: the core must not have heard it."""
    tell("working")
    try:
        while True:
            await engine.generate(Request(prompt="once", sampling=Sampling(max_tokens=20)))
    except asyncio.CancelledError:
        last = await engine.generate(Request(prompt="last", sampling=Sampling(max_tokens=1)))
        tell("after Ctrl-C", len(last.token_ids))
        raise


folder = Path(sys.argv[1])
tell("begun")
model = build(folder)
try:
    opened(folder, process=True, kv_cache_gib=1e-5)
except ServingError as error:
    tell("refused", type(error).__name__, str(error), len(multiprocessing.active_children()))
engine = opened(folder, process=True)
tell("open", *core())
try:
    asyncio.run(work())
except KeyboardInterrupt:
    engine.close()
    tell("closed", len(multiprocessing.active_children()))
adapter = write_adapter(folder, folder.parent / "adapter", size=0.05)
engine = opened(folder, process=True, adapters={"one": str(adapter)})
scores = asyncio.run(engine.score(ScoreRequest(LONG, ACTIONS, adapter="one"))).logprobs
gap = Reference(with_adapter(model, adapter)).gap(engine, LONG, ACTIONS, scores)
tell("open again", *core(), gap)
time.sleep(600)
