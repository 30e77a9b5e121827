"""The fleet as vectors: one table per kind, advanced once per tick, seen by rules through a View. Pure, NumPy."""
