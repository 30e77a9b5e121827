"""The simulator's edges: agents with sockets, a node as files, scenario files."""
