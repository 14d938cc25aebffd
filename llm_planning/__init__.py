"""Published LLM planners and their baselines on a model in this process."""
