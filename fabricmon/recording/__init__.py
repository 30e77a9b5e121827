"""Recordings as files: writing, reading, giving them away."""
