"""What runs in the process of an engine core: before vLLM is imported there, and at the end."""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

from llm_serving.models.reading import reason_of
from llm_serving.vllm_arguments import prepare_environment

NAME = "EngineCore"
"""How vLLM's name for the process begins, and what it logs of the end."""

REASON = "reason"
"""Name of the file that says why an engine core ends."""

GRACE = 10.0
"""Seconds that an engine core has to end by itself."""


def run(folder: str, work: bytes) -> None:
    """Steps an engine core until it is told to end, or the process that opened it is gone.

    Constrained answers come from this project's masks. Ctrl-C in a terminal reaches the process
    that plans alone.

    Args:
        folder: gets a file with the reason if this process fails; removed if its parent dies.
        work: a pickled function of vLLM and its keyword arguments.
    """
    parent = multiprocessing.parent_process()
    threading.Thread(target=_end_after, args=(parent, folder), daemon=True).start()
    os.setpgid(0, 0)
    prepare_environment()
    from llm_serving.block_hashes import install as hash_prompts_once
    from llm_serving.outlines_backend import install as answer_by_outlines

    hash_prompts_once()
    answer_by_outlines()
    logging.getLogger("vllm.v1.engine.core").addFilter(_Reason(Path(folder) / REASON))
    step_forever, arguments = pickle.loads(work)
    step_forever(**arguments)


class _Reason(logging.Filter):
    """Writes why this process ends, where vLLM would log it."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if error is None or not record.getMessage().startswith(NAME):
            return True
        self._file.write_text(reason_of(error))
        if os.environ["VLLM_LOGGING_LEVEL"] != "ERROR":
            return True
        # multiprocessing prints the traceback once more.
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - to the end of the process
        return "start" not in record.getMessage()


def _end_after(parent: multiprocessing.process.BaseProcess, folder: str) -> None:
    """Ends this process when its parent is gone, however that ended."""
    parent.join()
    shutil.rmtree(folder, ignore_errors=True)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(1)
