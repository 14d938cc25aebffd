"""`llm-planning gpu-check`: is what a GPU gives right, and then, is it fast?

- `checks`, `card`: one function a check; `python -m llm_planning.gpu_check.checks NAME MODEL` is a
  process of its own for each.
- `finding`: what each of them returns. `unweighted`: a model of 7B that nobody has to fetch.
- `report`: starts them, and writes what they said as one text and one JSON file.

vLLM takes another model runner on a GPU than on a CPU. So right answers come first, and each is
compared with a slower way to the same number on the same machine.
"""
