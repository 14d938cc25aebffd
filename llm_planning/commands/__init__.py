"""`llm-planning`: a file for each subcommand. What takes time to import stands inside functions."""
