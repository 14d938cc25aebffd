"""`llm-planning gpu-check`: is what a GPU gives right, and then, is it fast?

- `report`: the steps in the order of their worth. It starts each as a process of its own, within a
  time, and writes what they say as they say it.
- `checks`: `python -m llm_planning.gpu_check.checks NAME MODEL FOLDER` makes one check. `card` has
  those of the machine, `day` those that open one engine for everything, `asked` what it is asked.
- `finding`: what each of them returns. `unweighted`: models of real sizes that nobody has to fetch.

vLLM takes another model runner on a GPU than on a CPU. So right answers come first, and each is
compared with a slower way to the same number on the same machine.
"""
