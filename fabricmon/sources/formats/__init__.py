"""One topology file format a module: text, or YAML's data, to graph. Pure."""
