"""Evaluates the fleet at each tick and makes durable what changed."""
