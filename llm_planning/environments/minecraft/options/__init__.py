"""Minecraft carried out option by option."""
