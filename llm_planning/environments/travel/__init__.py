"""Air travel: cities and the direct flights between them."""
