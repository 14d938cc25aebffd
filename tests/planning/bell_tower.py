"""The story of our own in `stories`, compiled for two versions of the Z-machine."""

from dataclasses import replace
from pathlib import Path

from llm_planning.environments.textgame.jericho_games import read_story

VERSIONS = (3, 5)
WAY = ("open chest", "ring bell", "press space", "down", "north", "north", "wear crown")


def story_file(version: int) -> Path:
    return Path(__file__).with_name("stories") / f"bell_tower.z{version}"


def bell_tower(version: int):
    """The story, which Jericho does not know, with a way to all of its points."""
    way = [command for command in WAY if version > 3 or command != "press space"]
    return replace(read_story(story_file(version)), walkthrough=tuple(way))
