"""The terminal of a command: output, progress line, full screen."""
