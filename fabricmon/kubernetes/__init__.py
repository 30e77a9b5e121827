"""The Kubernetes API as fabricmon speaks it: one client, LIST and WATCH on it, and the objects that are read."""
