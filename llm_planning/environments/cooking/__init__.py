"""TextWorld Cooking: real games in which a meal is cooked by the book (XENON, Appendix A)."""
