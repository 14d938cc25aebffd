"""Products of whole numbers, written digit by digit: a world of LLM-MCTS's analysis."""
