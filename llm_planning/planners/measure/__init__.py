"""Measuring as a planner: one role of one model in one domain is one trial."""
