"""A client of the Kubernetes API: requests, LIST and WATCH, and the used objects."""
