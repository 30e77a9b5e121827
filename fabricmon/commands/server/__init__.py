"""What commands ask the central server, and what they make of its answers."""
