"""Where the bytes that a port received and sent are counted. Pure.

Which count is right depends on what the port is:
  * "wire"   everything that passed the plug (drivers' own statistics): of Ethernet adapters that have them.
  * "port"   PortXmitData and PortRcvData. Of InfiniBand that is everything; of RoCE it is what RDMA sent and received
             (docs/methods.md#infiniband-port-counters), so it counts only where the wire is not known.
  * "rdma"   the RDMA function's own count, where neither is known: EFA, and adapters without port counters.
"""

SOURCES = (("wire", "phy_rx", "phy_tx"), ("port", "rcv", "xmit"), ("rdma", "rdma_rx_bytes", "rdma_tx_bytes"))
"""Word, column of received and column of sent bytes; the first that is known counts, both directions from one."""
