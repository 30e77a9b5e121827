"""Plans the probes of all agents and sends each its own."""
