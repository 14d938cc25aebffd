"""Worlds of other people, as domains or parts of domains of this project."""
