"""Worlds that planners plan in: plain state, JSON in and JSON out."""
