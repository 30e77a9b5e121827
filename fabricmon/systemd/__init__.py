"""fabricmon as services of a machine: the files for systemd, and what installing them does."""
