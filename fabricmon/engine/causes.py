"""What can be broken, how often it is, and what it shows: the rows of the noisy-OR model.

Numbers are the starting table of detection-methods 4.2: `q` is the probability that a member of the component shows the
symptom while the cause is active, `cost` is -logit of the prior in nats. A symptom type that no cause touches may
never be explained by it. Two modes of one component are two rows (4.2: one cause per failure mode).

A later rule is one more type in `SYMPTOM_OF` and one more number in the rows it concerns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from fabricmon.model import Severity

# Symptom types of detection-methods section 1, by the kind word of the rule that shows them.
SYMPTOM_OF: Mapping[str, str] = {
    "link_down": "LD",
    "link_flapping": "LF",
    "link_errors": "LE",
    "link_degraded": "LS",
    "nic_fault": "NE",
    "agent_silent": "AM",
    "packet_loss": "EL",
    "flow_loss": "FL",
    "straggler": "ST",
    "storage_path": "SP",
    "nvlink_down": "NL",
    "nvlink_degraded": "NV",
    "pcie_degraded": "PC",
    "pfc_storm": "TP",
    "slow_receiver": "TP",
    "incast": "IC",
    "congestion": "CG",
}

WORDS: Mapping[str, str] = {
    "LD": "link down",
    "LF": "link flapping",
    "LE": "link errors",
    "LS": "link degraded",
    "NE": "NIC fault",
    "AM": "agent silent",
    "EL": "packet loss",
    "FL": "packet loss towards a peer",
    "PW": "peers that lose packets towards the host",
    "ST": "slower than its peers",
    "SP": "storage path held back",
    "NL": "NVLink down",
    "NV": "NVLink errors",
    "PC": "PCIe link degraded",
    "TP": "pausing others",
    "IC": "overrun by senders",
    "CG": "congestion",
}

# Probability that a detector shows the symptom without any cause, after persistence (detection-methods 4.2). Link state
# and rate are read, not estimated; the CUSUM's bound is e^-20.6 a poll (2.3), taken here with room for misreadings.
# Agent silence has a measured base rate instead (3.9); see `diagnose.silence_leak`. Pausing is measured over windows.
# Single ports are congested often and for reasons of no fault: one in a hundred at a time [D].
LEAK: Mapping[str, float] = {"TP": 1e-6, "IC": 1e-6, "CG": 1e-2,
                             "LD": 1e-6, "LF": 1e-6, "LE": 1e-6, "LS": 1e-6, "NE": 1e-6, "NL": 1e-6, "NV": 1e-6,
                             "PC": 1e-6, "EL": 1e-4, "FL": 1e-4, "PW": 0.02, "ST": 1e-5, "SP": 1e-5}

SILENCE_FLOOR = 0.002
"""Least base rate of silent agents. At this floor one silent agent gains 6.1 nats, less than the 6.9 that a dead host
costs: it stays "agent silent" until a second witness speaks (detection-methods 3.9)."""

ONE_CAUSE = 60.0
"""Seconds around the median onset within which symptoms can be one cause: two polls of 10 s, the 30 s after which an
agent counts as silent, and a slack of one poll. What began at another time is not this cause's."""


@dataclass(frozen=True, slots=True)
class Mode:
    """One way in which the components of one domain fail.

    domain    whose groups it strikes (topology.domains.DOMAINS)
    word      what the component is called in an incident: "leaf" in "leaf(su1/rail2)"
    kind      incident kind
    cost      -logit(prior), nats
    q         symptom type -> probability per member
    least     positive members needed before it is considered: one link never accuses its leaf
    share     share of the observed members that must be positive
    together  seconds around the median onset within which a symptom can be this cause's
    sign      symptom type without which it is not considered, "" none: at least `signs` members, and at least the
              share `most` of all members, whether they report or not
    severity  what a verdict is told as; None: by its domain and its members' symptoms
    """

    name: str
    domain: str
    word: str
    kind: str
    cost: float
    q: Mapping[str, float]
    least: int = 1
    share: float = 0.0
    together: float = inf
    sign: str = ""
    signs: int = 1
    most: float = 0.0
    severity: Severity | None = None


MODES: tuple[Mode, ...] = (
    Mode("cable or optic down", "link", "link", "link_down", 7.6, {"LD": 0.97}),
    Mode("cable or optic flapping", "link", "link", "link_flapping", 7.6, {"LD": 0.35, "LF": 0.95, "LE": 0.4}),
    Mode("cable or optic with bit errors", "link", "link", "link_errors", 7.6, {"LE": 0.95}),
    Mode("link trained below its rate", "link", "link", "link_degraded", 7.6, {"LS": 0.97, "ST": 0.5}),
    Mode("NIC bad", "nic", "nic", "nic_fault", 8.5, {"LE": 0.2, "NE": 0.9}),
    Mode("NIC dead", "nic", "nic", "nic_fault", 8.9, {"LD": 0.97, "NE": 0.8}),
    # All fabric links of one host go together when it shuts down or its driver stops; the agent follows or it does not.
    # One link that was down when the agent fell silent, while its neighbours were last seen up, is not the host.
    Mode(
        "host down", "host", "host", "agent_silent", 6.9, {"LD": 0.97, "AM": 0.97}, 2,
        together=ONE_CAUSE + 30.0, sign="LD", most=0.5,
    ),
    # 3.9: a silent agent is a dead host when its peers lose packets towards it (PW); the cause of both is one.
    Mode("host dead", "host", "host", "host_unreachable", 6.9, {"AM": 0.97, "PW": 0.9}, 2, sign="PW",
         severity=Severity.CRITICAL),
    Mode("all links of a host down", "host", "host", "link_down", 8.0, {"LD": 0.97}, 2, together=ONE_CAUSE),
    Mode("leaf down", "leaf", "leaf", "fault_domain", 9.2, {"LD": 0.97}, 2, together=ONE_CAUSE),
    # In the first hour of a watch the calm of links is unknown; links that are down must not pass for a restart then.
    Mode(
        "leaf rebooting", "leaf", "leaf", "fault_domain", 9.2, {"LD": 0.4, "LF": 0.9}, 2,
        together=10 * ONE_CAUSE, sign="LF", signs=2,
    ),
    Mode("rail down", "rail", "rail", "fault_domain", 9.9, {"LD": 0.97}, 2, together=ONE_CAUSE),
    # 4.9: ports of which nobody told the leaf, and which went down together twice before.
    Mode("learned group down", "learned", "group", "fault_domain", 9.2, {"LD": 0.97}, 2, together=ONE_CAUSE),
    Mode(
        "learned group restarting", "learned", "group", "fault_domain", 9.2, {"LD": 0.4, "LF": 0.9}, 2,
        together=10 * ONE_CAUSE, sign="LF", signs=2,
    ),
    # 3.9: at least 80 % of the domain, within one window. Without the peers' word a cut in the path of the telemetry
    # looks the same and is as likely; packet loss towards the members (PW) tells them apart.
    Mode("power lost", "power", "power", "fault_domain", 10.4, {"AM": 0.97, "PW": 0.9}, 2, 0.8, ONE_CAUSE),
    Mode("monitoring path cut", "power", "monitoring", "agent_silent", 10.4, {"AM": 0.97}, 2, 0.8, ONE_CAUSE),
    # 3.6: a straggler alone is information; a link, adapter or PCIe path that explains it has a number in its own row.
    Mode("NIC slower than its peers", "nic", "nic", "straggler", 6.9, {"ST": 0.95}),
    Mode("host slower than its peers", "host", "host", "straggler", 7.6, {"ST": 0.9}, 2, 0.5),
    Mode("storage path of a NIC held back", "nic", "nic", "storage_path", 7.6, {"SP": 0.95}),
    Mode("storage path held back", "rail", "rail", "storage_path", 6.9, {"SP": 0.75}, 2, 0.5),
    Mode("storage path below a leaf held back", "leaf", "leaf", "storage_path", 6.9, {"SP": 0.75}, 2, 0.5),
    Mode("NVLinks of a GPU down", "gpu", "gpu", "nvlink_down", 8.5, {"NL": 0.95}),
    Mode("NVLinks of a GPU with errors", "gpu", "gpu", "nvlink_degraded", 8.5, {"NV": 0.95}),
    # 3.7: at least half of a domain's GPUs. An NVSwitch, the fabric manager or the board shows on all of them.
    Mode("NVLink domain down", "nvlink_domain", "nvlink_domain", "fault_domain", 9.2, {"NL": 0.9}, 2, 0.5, ONE_CAUSE),
    Mode("NVLink domain with errors", "nvlink_domain", "nvlink_domain", "fault_domain", 9.2, {"NV": 0.9}, 2, 0.5,
         ONE_CAUSE),
    Mode("PCIe link of a NIC degraded", "adapter", "nic", "pcie_degraded", 8.5, {"PC": 0.97, "ST": 0.5}),
    # 3.2: a PCIe link below its width leads to pause, and that to storms. Whether it does depends on the load, so it is
    # a mode of its own.
    Mode("PCIe link of a NIC too slow for what it receives", "adapter", "nic", "pcie_degraded", 8.5,
         {"PC": 0.97, "TP": 0.9, "ST": 0.5}, 2, sign="TP"),
    Mode("NIC pausing its senders", "nic", "nic", "slow_receiver", 8.5, {"TP": 0.95, "ST": 0.5}),
    Mode("receiver overrun by its senders", "nic", "nic", "incast", 8.5, {"IC": 0.95}),
    # 3.1: at least half of the active ports of a rail or leaf. Who is held up by a NIC that pauses, or by an incast, is
    # set aside before (victims.py).
    Mode("rail congested", "rail_traffic", "rail", "fault_domain", 6.9, {"CG": 0.75}, 4, 0.5,
         severity=Severity.WARNING),
    Mode("leaf congested", "leaf_traffic", "leaf", "fault_domain", 6.9, {"CG": 0.75}, 4, 0.5,
         severity=Severity.WARNING),
    Mode("port congested", "nic", "nic", "congestion", 9.2, {"CG": 0.95}),
    Mode("PCIe link of a GPU degraded", "gpu", "gpu", "pcie_degraded", 8.5, {"PC": 0.97}),
    Mode("PCIe link degraded", "pcie", "pcie", "pcie_degraded", 8.5, {"PC": 0.97}),
)

NOTED = frozenset({"AM", "CG"})
"""Symptom types of which what no verdict explains is a notice of its host, as long as it is for information."""

FLOW_MODES: tuple[Mode, ...] = (
    Mode("cable or optic losing packets", "link", "link", "packet_loss", 8.0, {"FL": 0.9}),
    Mode("NIC losing packets", "nic", "nic", "packet_loss", 8.9, {"FL": 0.9}),
    Mode("leaf losing packets", "leaf", "leaf", "fault_domain", 9.2, {"FL": 0.9}, 2, severity=Severity.CRITICAL),
    Mode("half of a leaf losing packets", "leaf", "leaf", "fault_domain", 9.9, {"FL": 0.5}, 2,
         severity=Severity.CRITICAL),
    Mode("spine losing packets", "spine", "spine", "fault_domain", 9.2, {"FL": 0.9}, 2, severity=Severity.CRITICAL),
    Mode("half of a spine losing packets", "spine", "spine", "fault_domain", 9.9, {"FL": 0.5}, 2,
         severity=Severity.CRITICAL),
    Mode("core losing packets", "core", "core", "fault_domain", 9.2, {"FL": 0.9}, 2, severity=Severity.CRITICAL),
    Mode("half of a core losing packets", "core", "core", "fault_domain", 9.9, {"FL": 0.5}, 2,
         severity=Severity.CRITICAL),
    Mode("plane losing packets", "plane", "plane", "fault_domain", 9.9, {"FL": 0.9}, 2, severity=Severity.CRITICAL),
)
"""Causes of loss by flows (4.2, L2): what flows share. Diagnosed after the hard faults (4.6). A plane is a cause only
of flows whose path changes from packet to packet."""

GRAY_MODES: tuple[Mode, ...] = (
    Mode("link losing packets", "link", "link", "packet_loss", 8.0, {"EL": 0.9}),
    Mode("NIC losing packets", "nic", "nic", "packet_loss", 8.9, {"EL": 0.9}),
    Mode("leaf losing packets", "leaf", "leaf", "fault_domain", 9.2, {"EL": 0.9}, severity=Severity.CRITICAL),
    Mode("up-link of a leaf losing packets", "leaf", "leaf", "fault_domain", 8.0, {"EL": 0.35},
         severity=Severity.WARNING),
    Mode("pod losing packets", "pod", "pod", "fault_domain", 7.1, {"EL": 0.9}, severity=Severity.CRITICAL),
    Mode("plane losing packets", "plane", "plane", "fault_domain", 7.8, {"EL": 0.9}, severity=Severity.CRITICAL),
    Mode("network losing packets", "network", "network", "fault_domain", 10.4, {"EL": 0.9}, severity=Severity.WARNING),
)
"""Causes of loss by ports alone (L1), see gray.py. A pod or plane is any one of its switches: 9.2 less the logarithm of
how many there are, taken as eight of a pod and, of a plane, whose cables lead to few ports each, as four [D]."""

PEERS = 12
"""Usual number of peers of a port (4.6)."""

GROUPS = frozenset({
    "core", "host", "leaf", "leaf_traffic", "learned", "network",
    "nvlink_domain", "plane", "pod", "power", "rail", "rail_traffic", "spine",
})  # fmt: skip
"""Domains of several members: a verdict on one waits for its members and swallows what they show."""
