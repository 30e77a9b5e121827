"""The agent's side of active probing: its sockets and its task."""
