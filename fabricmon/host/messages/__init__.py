"""Netlink messages that pyroute2 does not have (RDMA, dcbnl, most of ethtool) as bytes, encoded and decoded. Pure."""
