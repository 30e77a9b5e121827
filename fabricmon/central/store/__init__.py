"""Durable state: SQLite, and the thread that owns it."""
