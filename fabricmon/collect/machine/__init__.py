"""The devices of a machine: names, labels, available sources. Pure: the host does the reading."""
