"""Blocksworld: DRIP's variant, in which whole piles are moved, and the standard rules."""
