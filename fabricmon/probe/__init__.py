"""Active probing: who probes whom, the packets, their windows, and the agent's task (docs/probing.md)."""
