"""Malformed calls, damaged files and signals for every command: what must be refused, and how.

`commands` knows the commands and what kind of value each parameter takes, `values` what a hostile
reader gives for each kind, `formats` the files and what damages them. `cases` draws from these
tables, `running` runs a case inside a process or as one, `ending` judges how it ended.
"""
