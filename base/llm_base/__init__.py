"""What every layer above needs: files, quoting, memory, a terminal, YAML, SQLite.

It imports no other layer and knows nothing of models, vectors or plans.
"""
