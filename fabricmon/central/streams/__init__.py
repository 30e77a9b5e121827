"""One WebSocket to each agent, and which node each of them is."""
