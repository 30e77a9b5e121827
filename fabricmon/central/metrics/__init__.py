"""The central server's own /metrics."""
