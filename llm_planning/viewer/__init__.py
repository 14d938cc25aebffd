"""Traces as pages: one HTML file that works from disk, offline."""
