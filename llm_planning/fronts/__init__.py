"""The command line of each subcommand: its options and its help, and nothing that takes long.

A front reads the command line, imports the module of `llm_planning.commands` that does the work,
and returns the work; `llm_planning.cli` runs it. So help is there at once, whatever the work needs.
"""
