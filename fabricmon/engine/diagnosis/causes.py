"""Possible causes, their priors and their symptoms: the rows of the noisy-OR model.

Numbers are design choices (docs/methods.md#priors-and-probabilities): `q` is the probability that a member of the
component shows the symptom while the cause is active, `cost` is -logit of the prior in nats. Two modes of one
component are two rows: one cause per failure mode. A new rule is a symptom type in the row of its kind
(`catalogue/kinds.py`) and a number in the rows of its causes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, inf, log

from fabricmon.catalogue.kinds import KINDS, required
from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.model import Severity

T = SymptomType

WORDS: Mapping[SymptomType, str] = {
    T.LINK_DOWN: "link down",
    T.LINK_FLAPPING: "link flapping",
    T.LINK_FELL: "link fell with others",
    T.LINK_ERRORS: "link errors",
    T.LINK_DEGRADED: "link degraded",
    T.NIC_FAULT: "NIC fault",
    T.AGENT_SILENT: "agent silent",
    T.PACKET_LOSS: "packet loss",
    T.FLOW_LOSS: "packet loss to a peer",
    T.LOSS_TOWARDS_HOST: "peers that lose packets to the host",
    T.STRAGGLER: "slower than its peers",
    T.STORAGE_PATH: "storage path congested",
    T.NVLINK_DOWN: "NVLink down",
    T.NVLINK_ERRORS: "NVLink errors",
    T.GPU_FABRIC: "NVLink fabric unhealthy",
    T.PCIE_DEGRADED: "PCIe link degraded",
    T.PCIE_ERRORS: "PCIe errors",
    T.PAUSING: "PFC pause sent",
    T.INCAST: "incast",
    T.CONGESTION: "congestion",
}

# Probability that a detector shows the symptom without any cause, after persistence
# (docs/methods.md#priors-and-probabilities). Link state and rate are read, not estimated; the CUSUM's bound is e^-20.6
# a poll, taken here with room for misreadings. Agents fall silent at a measured rate instead (silence_rate.py).
# Pausing is measured over windows. Single ports are congested often and for reasons of no fault: one in a hundred at a
# time (design choice).
LEAK: dict[SymptomType, float] = dict.fromkeys(SymptomType, 1e-6) | {
    T.CONGESTION: 1e-2, T.PACKET_LOSS: 1e-4, T.FLOW_LOSS: 1e-4, T.LOSS_TOWARDS_HOST: 0.02, T.STRAGGLER: 1e-5,
    T.STORAGE_PATH: 1e-5, T.LINK_FELL: 1e-3,
}  # fmt: skip

ONE_OF_THREE = 1 / 3
TWO_OF_THREE = 2 / 3
"""`Mode.harmless` where three explanations are known, one or two of them normal work
(docs/methods.md#harmless-causes)."""

ONE_CAUSE = 60.0
"""Seconds around the median onset within which symptoms can be one cause: two polls of 10 s, the 30 s after which an
agent counts as silent, and a slack of one poll."""


@dataclass(frozen=True, slots=True)
class Mode:
    """One way in which the components of one domain fail.

    domain    whose groups it affects (topology.groups.DOMAINS)
    kind      incident kind
    cost      -logit(prior), nats
    q         symptom type -> probability per member
    least     least number of positive members: one link is no evidence for its leaf
    share     least share of the observed members that are positive
    together  seconds around the median onset of its symptoms
    sign      required symptom type: on at least `signs` members and the share `most` of all members, reporting or not,
              that are on a known leaf, if any is
    severity  of its verdicts; None: by its domain and its members' symptoms
    word      of the component in an incident: "leaf" in "leaf(su1/rail2)"; "": the domain
    part_of   word of the component that it is a part of: the same incident, as the part may be known later
    partial   an unknown share of its members shows any of its symptoms (partial.py), whatever `q` is; all its types
              are of rows of one table
    whole     domain whose groups fail as a whole or not at all: a feed takes switches, not some ports of each
    harmless  probability that normal work made the same symptoms (docs/methods.md#harmless-causes)
    """

    name: str
    domain: str
    kind: str
    cost: float
    q: Mapping[SymptomType, float]
    least: int = 1
    share: float = 0.0
    together: float = inf
    sign: SymptomType | None = None
    signs: int = 1
    most: float = 0.0
    severity: Severity | None = None
    word: str = ""
    part_of: str = ""
    partial: bool = False
    whole: str = ""
    harmless: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "word", self.word or self.domain)
        required(self.kind, f"mode {self.name!r}")

    @property
    def family(self) -> str:
        """Word of the component whose incident it is."""
        return self.part_of or self.word


WAITING_RUN = "run_congested"
"""Domain of the ports of no known leaf that wait, of hosts next to each other (runs.py)."""

MODES: tuple[Mode, ...] = (
    Mode("cable or optic down", "link", "link_down", 7.6, {T.LINK_DOWN: 0.97}),
    Mode("cable or optic flapping", "link", "link_flapping", 7.6,
         {T.LINK_DOWN: 0.35, T.LINK_FLAPPING: 0.95, T.LINK_ERRORS: 0.4}),
    Mode("cable or optic with bit errors", "link", "link_errors", 7.6, {T.LINK_ERRORS: 0.95}),
    Mode("link trained below its rate", "link", "link_degraded", 7.6, {T.LINK_DEGRADED: 0.97, T.STRAGGLER: 0.5}),
    Mode("NIC bad", "nic", "nic_fault", 8.5, {T.LINK_ERRORS: 0.2, T.NIC_FAULT: 0.9}),
    Mode("NIC dead", "nic", "nic_fault", 8.9, {T.LINK_DOWN: 0.97, T.NIC_FAULT: 0.8}),
    # All fabric links of a host go down together when it shuts down or its driver stops. One link down at an agent that
    # fell silent, with its neighbours last seen up, is not the host.
    Mode("host down", "host", "host_unreachable", 6.9,
         {T.LINK_DOWN: 0.97, T.AGENT_SILENT: 0.97}, 2, together=ONE_CAUSE + 30.0, sign=T.LINK_DOWN, most=0.5),
    # A silent agent whose peers lose packets to it is a dead host.
    Mode("host dead", "host", "host_unreachable", 6.9,
         {T.AGENT_SILENT: 0.97, T.LOSS_TOWARDS_HOST: 0.9}, 2, sign=T.LOSS_TOWARDS_HOST, severity=Severity.CRITICAL),
    Mode("all links of a host down", "host", "link_down", 8.0, {T.LINK_DOWN: 0.97}, 2, together=ONE_CAUSE),
    Mode("leaf down", "leaf", "fault_domain", 9.2, {T.LINK_DOWN: 0.97}, 2, together=ONE_CAUSE),
    # Needs flapping links: after a start of the server links that are down must not count as a restart.
    Mode("leaf rebooting", "leaf", "fault_domain", 9.2,
         {T.LINK_DOWN: 0.4, T.LINK_FLAPPING: 0.9}, 2, together=10 * ONE_CAUSE, sign=T.LINK_FLAPPING, signs=2),
    Mode("rail down", "rail", "fault_domain", 9.9, {T.LINK_DOWN: 0.97}, 2, together=ONE_CAUSE),
    # Ports without a known leaf that went down together twice before.
    Mode("learned group down", "learned", "fault_domain", 9.2,
         {T.LINK_DOWN: 0.97}, 2, together=ONE_CAUSE, word="group"),
    Mode("learned group restarting", "learned", "fault_domain", 9.2,
         {T.LINK_DOWN: 0.4, T.LINK_FLAPPING: 0.9}, 2, together=10 * ONE_CAUSE, sign=T.LINK_FLAPPING, signs=2,
         word="group"),
    # At least 80 % of the domain within one window. A cut in the monitoring network looks the same and is as likely;
    # packet loss to the members separates the two.
    Mode("power lost", "power", "fault_domain", 10.4,
         {T.AGENT_SILENT: 0.97, T.LOSS_TOWARDS_HOST: 0.9}, 2, 0.8, ONE_CAUSE),
    Mode("monitoring path cut", "power", "agent_silent", 10.4,
         {T.AGENT_SILENT: 0.97}, 2, 0.8, ONE_CAUSE, word="management"),
    Mode("NIC slower than its peers", "nic", "straggler", 6.9, {T.STRAGGLER: 0.95}, harmless=ONE_OF_THREE),
    Mode("host slower than its peers", "host", "straggler", 7.6, {T.STRAGGLER: 0.9}, 2, 0.5),
    Mode("storage path of a NIC congested", "nic", "storage_path", 7.6, {T.STORAGE_PATH: 0.95}),
    Mode("storage path congested", "rail", "storage_path", 6.9, {T.STORAGE_PATH: 0.75}, 2, 0.5),
    Mode("storage path below a leaf congested", "leaf", "storage_path", 6.9, {T.STORAGE_PATH: 0.75}, 2, 0.5),
    Mode("NVLinks of a GPU down", "gpu", "nvlink_down", 8.5, {T.NVLINK_DOWN: 0.95}),
    Mode("NVLinks of a GPU with errors", "gpu", "nvlink_degraded", 8.5, {T.NVLINK_ERRORS: 0.95}),
    Mode("GPU or its NVLink fabric unhealthy", "gpu", "gpu_fabric", 8.5, {T.GPU_FABRIC: 0.95}),
    # At least half of a domain's GPUs: an NVSwitch, the fabric manager or the board.
    Mode("NVLink domain down", "nvlink_domain", "fault_domain", 9.2, {T.NVLINK_DOWN: 0.9}, 2, 0.5, ONE_CAUSE),
    Mode("NVLink domain with errors", "nvlink_domain", "fault_domain", 9.2, {T.NVLINK_ERRORS: 0.9}, 2, 0.5, ONE_CAUSE),
    Mode("NVLink domain unhealthy", "nvlink_domain", "fault_domain", 9.2, {T.GPU_FABRIC: 0.9}, 2, 0.5, ONE_CAUSE),
    # A link that lost lanes may have errors, too; where it only has errors it is not slow.
    Mode("PCIe link of a NIC degraded", "adapter", "pcie_degraded", 8.5,
         {T.PCIE_DEGRADED: 0.97, T.PCIE_ERRORS: 0.3, T.STRAGGLER: 0.5}, sign=T.PCIE_DEGRADED, word="nic"),
    Mode("PCIe link of a NIC with errors", "adapter", "pcie_errors", 8.5,
         {T.PCIE_ERRORS: 0.95, T.STRAGGLER: 0.5}, sign=T.PCIE_ERRORS, word="nic"),
    # A PCIe link below its width leads to pause under load: a mode of its own. Two ports that pause are no PCIe link.
    Mode("PCIe link of a NIC too slow for what it receives", "adapter", "pcie_degraded", 8.5,
         {T.PCIE_DEGRADED: 0.97, T.PAUSING: 0.9, T.STRAGGLER: 0.5}, 2, sign=T.PCIE_DEGRADED, word="nic"),
    Mode("NIC pausing its senders", "nic", "slow_receiver", 8.5, {T.PAUSING: 0.95, T.STRAGGLER: 0.5}),
    Mode("receiver overrun by its senders", "link", "incast", 8.5, {T.INCAST: 0.95}),
    # At least half of the active ports of a rail or leaf, without the victims of receivers (victims.py).
    Mode("rail congested", "rail_traffic", "fault_domain", 6.9,
         {T.CONGESTION: 0.75}, 4, 0.5, severity=Severity.WARNING, word="rail", harmless=ONE_OF_THREE),
    Mode("leaf congested", "leaf_traffic", "fault_domain", 6.9,
         {T.CONGESTION: 0.75}, 4, 0.5, severity=Severity.WARNING, word="leaf", harmless=ONE_OF_THREE),
    # Where no map shows the leaf (runs.py): half of the ports of a small one.
    Mode("neighbours congested", WAITING_RUN, "fault_domain", 6.9, {T.CONGESTION: 0.75}, 8,
         severity=Severity.WARNING, word="common", partial=True, harmless=ONE_OF_THREE),
    Mode("port congested", "nic", "congestion", 9.2, {T.CONGESTION: 0.95}),
    Mode("PCIe link of a GPU degraded", "gpu", "pcie_degraded", 8.5,
         {T.PCIE_DEGRADED: 0.97, T.PCIE_ERRORS: 0.3}, sign=T.PCIE_DEGRADED),
    Mode("PCIe link of a GPU with errors", "gpu", "pcie_errors", 8.5, {T.PCIE_ERRORS: 0.95}),
    Mode("PCIe link degraded", "pcie", "pcie_degraded", 8.5,
         {T.PCIE_DEGRADED: 0.97, T.PCIE_ERRORS: 0.3}, sign=T.PCIE_DEGRADED),
    Mode("PCIe link with errors", "pcie", "pcie_errors", 8.5, {T.PCIE_ERRORS: 0.95}),
)

NOTED = frozenset(kind.symptom for kind in KINDS.values() if kind.symptom and kind.notice)
"""Symptom types whose unexplained symptoms are a notice of their host while they are info."""

FLOW_MODES: tuple[Mode, ...] = (
    Mode("cable or optic losing packets", "link", "packet_loss", 8.0, {T.FLOW_LOSS: 0.9}),
    Mode("NIC losing packets", "nic", "packet_loss", 8.9, {T.FLOW_LOSS: 0.9}),
    # Whose agent has never reported: without it, it is no silent host.
    Mode("host losing packets", "host", "packet_loss", 9.2, {T.FLOW_LOSS: 0.9}, 2),
    Mode("leaf losing packets", "leaf", "fault_domain", 9.2, {T.FLOW_LOSS: 0.9}, 2, severity=Severity.CRITICAL),
    Mode("half of a leaf losing packets", "leaf", "fault_domain", 9.9,
         {T.FLOW_LOSS: 0.5}, 2, severity=Severity.CRITICAL),
    Mode("spine losing packets", "spine", "fault_domain", 9.2, {T.FLOW_LOSS: 0.9}, 2, severity=Severity.CRITICAL),
    Mode("half of a spine losing packets", "spine", "fault_domain", 9.9,
         {T.FLOW_LOSS: 0.5}, 2, severity=Severity.CRITICAL),
    Mode("core losing packets", "core", "fault_domain", 9.2, {T.FLOW_LOSS: 0.9}, 2, severity=Severity.CRITICAL),
    Mode("half of a core losing packets", "core", "fault_domain", 9.9,
         {T.FLOW_LOSS: 0.5}, 2, severity=Severity.CRITICAL),
    Mode("plane losing packets", "plane", "fault_domain", 9.9, {T.FLOW_LOSS: 0.9}, 2, severity=Severity.CRITICAL),
    Mode("network losing packets", "network", "fault_domain", 10.4, {T.FLOW_LOSS: 0.9}, 2, severity=Severity.WARNING),
)
"""Causes of loss by flows (L2). Diagnosed after the hard faults (docs/methods.md#hard-before-soft). A plane is a cause
only of flows that are sprayed."""

GRAY_MODES: tuple[Mode, ...] = (
    Mode("link losing packets", "link", "packet_loss", 8.0, {T.PACKET_LOSS: 0.9}),
    Mode("link losing packets to its port", "link", "packet_loss", 8.0, {T.PACKET_LOSS: 0.9}),
    Mode("cable between leaves losing packets", "link", "packet_loss", 8.0, {T.PACKET_LOSS: 0.9}),
    Mode("NIC losing packets", "nic", "packet_loss", 8.9, {T.PACKET_LOSS: 0.9}),
    Mode("leaf losing packets", "leaf", "fault_domain", 9.2, {T.PACKET_LOSS: 0.9}, severity=Severity.CRITICAL),
    Mode("part of a leaf losing packets", "leaf", "fault_domain", 9.9,
         {T.PACKET_LOSS: 0.5}, severity=Severity.CRITICAL),
    Mode("uplink of a leaf losing packets", "leaf", "fault_domain", 8.0,
         {T.PACKET_LOSS: 0.35}, severity=Severity.WARNING, word="uplinks"),
    Mode("pod losing packets", "pod", "fault_domain", 7.1, {T.PACKET_LOSS: 0.9}, severity=Severity.CRITICAL),
    Mode("plane losing packets", "plane", "fault_domain", 7.8, {T.PACKET_LOSS: 0.9}, severity=Severity.CRITICAL),
    Mode("network losing packets", "network", "fault_domain", 10.4, {T.PACKET_LOSS: 0.9}, severity=Severity.WARNING),
)
"""Causes of loss by ports alone (L1), see lossy_parts.py. A pod or plane is any one of its switches: 9.2 less the
logarithm of how many there are, taken as eight of a pod and, of a plane, whose cables lead to few ports each, as four
(design choice)."""

UNMAPPED_LOSS = Mode(
    "ports without a map losing packets", "together_lossy", "fault_domain",
    -log(sum(exp(-mode.cost) for mode in GRAY_MODES if mode.domain not in ("link", "nic"))),
    {T.PACKET_LOSS: 0.9}, severity=Severity.WARNING, word="common",
)  # fmt: skip
"""Any of the parts of more than one port, where no map shows one of them: the sum of their priors."""

if _wordless := set(SymptomType) - WORDS.keys():
    raise ValueError(f"WORDS of engine/diagnosis/causes.py lacks {', '.join(sorted(s.name for s in _wordless))}")
_EXPLAINED = {symptom for mode in (*MODES, *FLOW_MODES, *GRAY_MODES, UNMAPPED_LOSS) for symptom in mode.q}
for _kind in KINDS.values():
    if _kind.symptom is not None and _kind.notice is None and _kind.symptom not in _EXPLAINED:
        raise ValueError(f"kind {_kind.name!r}: no mode of engine/diagnosis/causes.py shows {_kind.symptom.name}")

LOSSES = frozenset({T.PACKET_LOSS, T.FLOW_LOSS})
"""Symptom types that a hard fault elsewhere may cause: diagnosed after it (docs/methods.md#hard-before-soft)."""

PEERS = 12
"""Usual number of peers of a port (docs/methods.md#hard-before-soft)."""

GROUPS = frozenset({
    "board", "cage", "chassis", "core", "feed", "firmware", "host", "leaf", "leaf_traffic", "learned", "module",
    "network", "nvlink_domain", "pcie_switch", "plane", "pod", "power", "rack", "rail", "rail_traffic", "row",
    WAITING_RUN, "run_down", "run_errors", "run_flapping", "spine", "subnet", "switch", "together_congested",
    "together_degraded", "together_down", "together_errors", "together_flapping", "together_losses", "together_lossy",
    "together_nics", "together_nvlink", "together_pausing", "together_pcie", "together_silent",
})  # fmt: skip
"""Domains of several members: a verdict waits for its members and absorbs their incidents."""
