"""fabricmon as systemd services: the files, and the steps that install them."""
