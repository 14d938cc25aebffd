"""Carrying out what was planned: actions, options, and programs that a model wrote."""
