"""LLM-MCTS, its baselines and LLM-MCTS+: tree search in a home that a language model knows."""
