"""Planners, one package per paper with its baselines beside it, and their registry."""
