"""The verbs of the command line, one file each. `cli.py` only parses and dispatches."""
