"""Security of the listeners of agent and server, and of the connections from the server to its agents."""
