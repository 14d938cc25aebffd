"""Household rearrangement: the words of the apartments of LLM-MCTS."""
