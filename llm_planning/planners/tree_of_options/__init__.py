"""Tree of Options: planning over temporally extended actions with an option-level world model."""
