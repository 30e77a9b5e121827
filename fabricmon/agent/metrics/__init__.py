"""The agent's /metrics: hardware, collectors, process."""
