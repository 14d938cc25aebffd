"""Runs a Python program on one of vLLM's model runners, on a CPU.

    python on_cpu.py V2 async PROGRAM [ARGUMENT ...]     # PROGRAM: a file, or -m MODULE

A program may say later how engines are scheduled: in the variable `SCHEDULING`.

A GPU takes the runner V2 and asynchronous scheduling; a CPU takes V1 and steps synchronously by
itself. vLLM's CPU build has V2, too, and asks only for a Triton with a backend for CPUs. Its
kernels run in Triton's interpreter here.
"""

import os
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

SCHEDULING = "LLM_PLANNING_TEST_SCHEDULING"
"""Variable of the environment: how engines that open are scheduled, "sync" or "async"."""

TOKENS_A_STEP = 192
"""Few enough that prompts are split."""


def let_masks_be_numbers():
    """Triton's interpreter gives (a comparison of scalars) & (a mask) another dtype than bool."""
    from triton.runtime.interpreter import InterpreterBuilder

    store = InterpreterBuilder.create_masked_store

    def masked(builder, pointers, value, mask, *rest):
        mask.data = mask.data.astype(bool)
        return store(builder, pointers, value, mask, *rest)

    InterpreterBuilder.create_masked_store = masked


def take(runner, scheduling):
    """Makes vLLM, which is not imported yet, take a runner ("V1", "V2") and "sync" or "async"."""
    os.environ[SCHEDULING] = scheduling
    os.environ["VLLM_USE_V2_MODEL_RUNNER"] = str(int(runner == "V2"))
    if runner == "V2":
        os.environ["TRITON_INTERPRET"] = "1"
        from triton.backends import backends

        backends["cpu"] = SimpleNamespace(
            driver=SimpleNamespace(is_active=lambda: False), compiler=None
        )
        let_masks_be_numbers()
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # read when vLLM is imported
    from vllm import EngineArgs

    configure = EngineArgs.create_engine_config

    def configure_as_on_a_gpu(arguments, *args, **kwargs):
        """The CPU's platform turns these off, whatever is asked."""
        config = configure(arguments, *args, **kwargs)
        config.scheduler_config.async_scheduling = os.environ[SCHEDULING] == "async"
        if runner == "V2":  # V1 dies of a split prompt with a seed
            config.scheduler_config.enable_chunked_prefill = True
            config.scheduler_config.max_num_batched_tokens = TOKENS_A_STEP
        return config

    EngineArgs.create_engine_config = configure_as_on_a_gpu
    import on_cpu

    from llm_serving import vllm_process

    vllm_process.run = on_cpu.run_taken


def run_taken(*arguments):
    """What runs in the process of an engine core: it takes the same."""
    runner = "V2" if os.environ["VLLM_USE_V2_MODEL_RUNNER"] == "1" else "V1"
    take(runner, os.environ[SCHEDULING])
    from llm_serving.vllm_core_process import run

    run(*arguments)


if __name__ == "__main__":
    here, runner, scheduling, *program = sys.argv
    take(runner, scheduling)
    if program[0] == "-m":
        sys.argv = program[1:]
        runpy.run_module(program[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = program
        sys.path[0] = str(Path(program[0]).parent)
        runpy.run_path(program[0], run_name="__main__")
