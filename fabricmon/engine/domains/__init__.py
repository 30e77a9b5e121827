"""Fault domains of all rows: link, adapter, host, leaf, rail, power domain, ... Pure."""
