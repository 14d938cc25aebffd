"""Minecraft item by item: goals, a text world, its controllers, rules that contradict the game."""
