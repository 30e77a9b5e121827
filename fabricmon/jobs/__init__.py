"""Jobs of schedulers: their nodes, and the impact of incidents on them. Pure; the server queries the schedulers."""
