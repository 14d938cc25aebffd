"""Trials, sweeps of them, the ledger that keeps their results, and the reports made from it."""
