"""Text output of the commands, made from answers of the server. Pure."""
