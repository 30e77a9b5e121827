"""Parsers of the texts, bytes and names of sources. Pure."""
