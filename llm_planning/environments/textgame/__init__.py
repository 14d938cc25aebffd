"""Text games: TextWorld's, Jericho's and one of our own behind one surface."""
