"""Minecraft twice, on one book of rules: carried out option by option, and item by item."""
