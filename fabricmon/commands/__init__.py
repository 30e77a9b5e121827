"""The commands of the command line, one file each. `cli.py` parses and dispatches."""
