"""The InfiniBand fabric by management datagrams: nodes, cables, counters of every port."""
