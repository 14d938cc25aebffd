"""The engine: an open-weight LLM in this process, batched, constrained and scored exactly."""
