"""Incidents: causes in words, and how they open, change and resolve over time. Pure."""
