"""What a person does about an incident: one text for each kind, and this literal table of them.

A runbook is half written and half derived. `text/<kind>.md` is what somebody who knows the trade wrote; why the kind is
told, what may be behind it and the limits come from the rules (`chapter.py`), so they are what the program does.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources

KINDS: Mapping[str, str] = {
    "link_down": "Link down",
    "link_flapping": "Link flapping",
    "link_errors": "Link errors",
    "link_degraded": "Link slower than its peers",
    "nic_fault": "Adapter failed",
    "nvlink_down": "NVLink down",
    "nvlink_degraded": "NVLink errors",
    "pcie_degraded": "PCIe link below its capability",
    "fault_domain": "Many links, one cause",
    "packet_loss": "Packet loss",
    "flow_loss": "Packet loss towards one peer",
    "pfc_storm": "Pause storm",
    "slow_receiver": "Slow receiver",
    "incast": "Incast",
    "congestion": "Congestion",
    "straggler": "Adapter slower than its peers",
    "storage_path": "Storage path held back",
    "agent_silent": "Agent silent",
    "host_unreachable": "Host unreachable",
    "telemetry_quality": "Readings cannot be relied upon",
    "config_drift": "Port set otherwise than its rail",
    "expected_inventory": "Fewer devices than expected",
    "topology_mismatch": "The topology and the fabric disagree",
    "repeat_offender": "Repeat offender",
    "mass_alarm": "Mass alarm",
    "maintenance": "Maintenance",
}
"""Kind of incident -> title of its runbook, in the order of the index: hard faults, loss, congestion, knowledge."""


@cache
def written(kind: str) -> str:
    """The part that a person wrote. KeyError for a kind that KINDS has not."""
    if kind not in KINDS:
        raise KeyError(kind)
    return resources.files(__name__).joinpath("text", f"{kind}.md").read_text(encoding="utf-8")
