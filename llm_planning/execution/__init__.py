"""Carrying out what was planned: episodes, and programs that a model wrote, in a sealed process."""
