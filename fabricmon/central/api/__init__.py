"""The HTTP API below /api/v1: incidents, fleet, silences and maintenance, jobs, targets."""
