"""The subcommands of `llm-planning`, one module each."""
