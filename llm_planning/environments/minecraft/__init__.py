"""Minecraft seen from its options: the state record, its words and the eight tasks."""
