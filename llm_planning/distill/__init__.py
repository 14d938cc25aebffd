"""Distillation: a small model is taught the answers that the rules of a domain give.

Questions become lessons (`tokens.py`), lessons become rows in which equal beginnings are there
once (`trie.py`), and a network of its own (`network.py`) learns them (`training.py`).
"""
