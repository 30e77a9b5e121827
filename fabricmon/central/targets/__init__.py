"""Discovery of agents: configuration, files, DNS, Kubernetes."""
