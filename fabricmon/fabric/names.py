"""Columns of a sweep: names as sysfs has them, and the attributes that hold them. Pure."""

from __future__ import annotations

from fabricmon.fabric import mad

STATES = ("state", "phys_state", "width", "rate")
ERRORS = (
    "symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors", "port_xmit_discards", "port_xmit_constraint_errors",
    "port_rcv_constraint_errors", "local_link_integrity_errors", "excessive_buffer_overrun_errors", "VL15_dropped",
    "qp1_dropped", "port_xmit_wait",
)  # fmt: skip
DATA = ("port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets")
CASTS = ("unicast_xmit_packets", "unicast_rcv_packets", "multicast_xmit_packets", "multicast_rcv_packets")
DETAILS: dict[mad.Attribute, str] = {
    mad.RCV_ERROR_DETAILS: "port_rcv_errors", mad.XMIT_DISCARD_DETAILS: "port_xmit_discards",
}  # fmt: skip
"""Attributes that are read when their parent counter rises."""
DETAIL_NAMES = tuple(f.name for attribute in DETAILS for f in attribute.fields if not f.name.endswith("_select"))
NAMES = (*STATES, *ERRORS, *DATA, *CASTS, *DETAIL_NAMES)
"""Columns of a sweep: names as sysfs has them, raw units (data in 4-byte words, rate in bytes per second)."""
COLUMN = {name: number for number, name in enumerate(NAMES)}
