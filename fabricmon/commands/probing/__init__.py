"""Probes by hand."""
