"""MC-DML: Monte Carlo planning with a dynamic memory-guided LLM, and its baselines."""
