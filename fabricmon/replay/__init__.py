"""Recordings of a server's inputs and decisions, and their replay."""
