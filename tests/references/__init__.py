"""The papers' algorithms in plain lines, written from the papers alone."""
