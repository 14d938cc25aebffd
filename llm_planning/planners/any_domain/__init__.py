"""Planners that work in every domain: search over its simulator, and models that only act."""
