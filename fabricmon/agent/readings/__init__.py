"""Readings of a node: schedule, state, evaluation and health. Pure."""
