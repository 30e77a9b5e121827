"""The kinds of incidents: one row a kind, every field written out. Pure.

All decisions by the kind of an incident or symptom read this table. A rule or a mode of the diagnosis whose kind
has no row raises when it is imported; a row without a runbook fails a test (`tests/docs/test_runbooks.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.catalogue.unique import by_name
from fabricmon.model import Severity

WHERE = "KINDS (fabricmon/catalogue/kinds.py)"


class Hardness(Enum):
    """What a kind shows about its part."""

    HARD = "hard"  # whether the part works at all: a part is known to be healthy only where this rule knows it
    PLAIN = "plain"
    SOFT = "soft"  # many members are not a harder fault than one: no more severe than their symptoms


class Effect(Enum):
    """Effect of a symptom on the traffic of its host."""

    OUTAGE = "outage"  # no traffic since the symptom began
    LOST = "lost"  # current operations fail at once
    BRIEF = "brief"  # interruptions of seconds
    SLOW = "slow"  # slower or with losses
    NONE = "none"  # no effect on traffic: no job is named


STOPPED = frozenset({Effect.OUTAGE, Effect.LOST, Effect.BRIEF})
"""Effects that are worse than slowness."""
SHOWS, TRAFFIC = "shows", "traffic"
"""Label of an incident whose evidence is nothing but lost packets, congestion or slow adapters, and its value."""


class Acting(Enum):
    """Whether an incident can be a reason to drain or taint its node."""

    ALLOWED = "allowed"  # where the site lists the kind
    UNKNOWING = "unknowing"  # never: a state is unknown, or maintenance is planned
    WIDE = "wide"  # never: it concerns more than one host


class Inhibits(Enum):
    """Incidents whose notifications one inhibits while it fires."""

    NOTHING = "nothing"
    PARTS = "parts"  # those whose bad members are among its own
    ALL = "all"  # those that opened when it did or later


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """The incident for symptoms that no verdict explains, one a host.

    family  first half of the incident's identity, as in `order`
    settle  seconds before it opens, as more hosts or a cause may follow
    most    above so many hosts they are one incident, until at most one is left
    blinds  a warning where half of all nodes have it: the central server may be cut off
    """

    family: str
    settle: float
    most: int
    blinds: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentKind:
    """One kind of incident.

    name      the word in incidents, silences and metrics; its runbook is `runbooks/text/<name>.md`
    title     heading of the runbook
    symptom   type of its symptoms in the diagnosis; None: not diagnosed
    notice    the incident for symptoms that no verdict explains; None: only verdicts open incidents
    order     family -> place in it. Kinds of one family on one component are one incident, whose kind changes upwards
              only within an episode. A family is the component's word, "link" or "nic"
    hardness  see Hardness
    severity  of a verdict whose mode and domain have none; None: the severest of its symptoms
    at_once   a verdict with links down does not wait for neighbours
    cooling   seconds for which the parts of a restored incident must be healthy: the memory of its rule was lost at the
              restart
    effect    of a symptom of this kind on jobs
    elsewhere lost packets or congestion in another part may be the reason
    inside    affects jobs of one node, too
    offence   counts for repeat_offender: broken hardware, not load, silence or configuration
    acting    see Acting
    inhibits  see Inhibits
    """

    name: str
    title: str
    symptom: SymptomType | None
    notice: Notice | None
    order: Mapping[str, int]
    hardness: Hardness
    severity: Severity | None
    at_once: bool
    cooling: float
    effect: Effect
    elsewhere: bool
    inside: bool
    offence: bool
    acting: Acting
    inhibits: Inhibits


# fmt: off
_ROWS: tuple[IncidentKind, ...] = (
    IncidentKind(
        name="link_down", title="Link down", symptom=SymptomType.LINK_DOWN,
        notice=None, order={"link": 3, "host": 1}, hardness=Hardness.HARD, severity=None, at_once=False, cooling=0.0,
        effect=Effect.OUTAGE, elsewhere=False, inside=False, offence=True, acting=Acting.ALLOWED, inhibits=Inhibits.NOTHING,
    ),
    IncidentKind(
        # A flap penalty of just over 2000 takes 900 s x log2(2000 / 750) = 1274 s to fall below 750.
        name="link_flapping", title="Link flapping", symptom=SymptomType.LINK_FLAPPING,
        notice=None, order={"link": 4}, hardness=Hardness.PLAIN, severity=None, at_once=True, cooling=1274.0,
        effect=Effect.BRIEF, elsewhere=False, inside=False, offence=True, acting=Acting.ALLOWED, inhibits=Inhibits.NOTHING,
    ),
    IncidentKind(
        name="link_errors", title="Link errors", symptom=SymptomType.LINK_ERRORS,
        notice=None, order={"link": 2}, hardness=Hardness.PLAIN, severity=None, at_once=False, cooling=0.0,
        effect=Effect.SLOW, elsewhere=False, inside=False, offence=True, acting=Acting.ALLOWED, inhibits=Inhibits.NOTHING,
    ),
    IncidentKind(
        name="link_degraded", title="Link slower than its peers", symptom=SymptomType.LINK_DEGRADED,
        notice=None, order={"link": 1}, hardness=Hardness.PLAIN, severity=None, at_once=False, cooling=0.0,
        effect=Effect.SLOW, elsewhere=False, inside=False, offence=True, acting=Acting.ALLOWED, inhibits=Inhibits.NOTHING,
    ),
    IncidentKind(
        name="nic_fault", title="Adapter failed", symptom=SymptomType.NIC_FAULT,
        notice=None, order={"nic": 5}, hardness=Hardness.PLAIN, severity=None, at_once=True, cooling=0.0,
        effect=Effect.OUTAGE, elsewhere=False, inside=False, offence=True, acting=Acting.ALLOWED, inhibits=Inhibits.PARTS,
    ),
    IncidentKind(
        name="nvlink_down", title="NVLink down", symptom=SymptomType.NVLINK_DOWN,
        notice=None, order={"gpu": 5}, hardness=Hardness.HARD, severity=None, at_once=False, cooling=0.0,
        effect=Effect.LOST, elsewhere=False, inside=True, offence=True, acting=Acting.ALLOWED, inhibits=Inhibits.NOTHING,
    ),
    IncidentKind(
        name="nvlink_degraded", title="NVLink errors", symptom=SymptomType.NVLINK_ERRORS,
        notice=None, order={"gpu": 3}, hardness=Hardness.PLAIN, severity=None, at_once=False, cooling=0.0,
        effect=Effect.SLOW, elsewhere=False, inside=True, offence=True, acting=Acting.ALLOWED, inhibits=Inhibits.NOTHING,
    ),
    IncidentKind(
        name="gpu_fabric", title="GPU or its NVLink fabric unhealthy", symptom=SymptomType.GPU_FABRIC,
        notice=None, order={"gpu": 4}, hardness=Hardness.PLAIN, severity=None, at_once=False, cooling=0.0,
        effect=Effect.LOST, elsewhere=False, inside=True, offence=True, acting=Acting.ALLOWED, inhibits=Inhibits.NOTHING,
    ),
    IncidentKind(
        name="pcie_degraded", title="PCIe link below its capability", symptom=SymptomType.PCIE_DEGRADED,
        notice=None, order={"nic": 4, "gpu": 2}, hardness=Hardness.HARD, severity=None, at_once=False, cooling=0.0,
        effect=Effect.SLOW, elsewhere=False, inside=False, offence=True, acting=Acting.ALLOWED, inhibits=Inhibits.NOTHING,
    ),
    IncidentKind(
        name="pcie_errors", title="PCIe errors", symptom=SymptomType.PCIE_ERRORS,
        notice=None, order={"nic": 3, "gpu": 1}, hardness=Hardness.PLAIN, severity=None, at_once=False, cooling=0.0,
        effect=Effect.SLOW, elsewhere=False, inside=False, offence=True, acting=Acting.ALLOWED, inhibits=Inhibits.NOTHING,
    ),
    IncidentKind(
        # No symptom is of this kind: the symptoms of its members have the effect on jobs.
        name="fault_domain", title="Many links, one cause", symptom=None,
        notice=None, order={}, hardness=Hardness.PLAIN, severity=None, at_once=False, cooling=0.0,
        effect=Effect.NONE, elsewhere=False, inside=False, offence=False, acting=Acting.WIDE, inhibits=Inhibits.PARTS,
    ),
    IncidentKind(
        name="packet_loss", title="Packet loss", symptom=SymptomType.PACKET_LOSS,
        notice=None, order={}, hardness=Hardness.PLAIN, severity=None, at_once=False, cooling=0.0,
        effect=Effect.SLOW, elsewhere=True, inside=False, offence=True, acting=Acting.ALLOWED, inhibits=Inhibits.NOTHING,
    ),
    IncidentKind(
        name="flow_loss", title="Packet loss towards one peer", symptom=SymptomType.FLOW_LOSS,
        notice=None, order={}, hardness=Hardness.PLAIN, severity=None, at_once=False, cooling=0.0,
        effect=Effect.SLOW, elsewhere=True, inside=False, offence=False, acting=Acting.ALLOWED, inhibits=Inhibits.NOTHING,
    ),
    IncidentKind(
        # 20 s: a dead link or a silent agent may be the cause of it (design choice).
        name="unreachable", title="Not reached by probes", symptom=None,
        notice=Notice(family="unreachable", settle=20.0, most=16, blinds=False), order={},
        hardness=Hardness.PLAIN, severity=None, at_once=False, cooling=0.0,
        effect=Effect.SLOW, elsewhere=True, inside=False, offence=False, acting=Acting.ALLOWED, inhibits=Inhibits.NOTHING,
    ),
    IncidentKind(
        name="latency", title="Long round trips", symptom=None,
        notice=Notice(family="latency", settle=20.0, most=16, blinds=False), order={},
        hardness=Hardness.SOFT, severity=None, at_once=False, cooling=0.0,
        effect=Effect.SLOW, elsewhere=True, inside=False, offence=False, acting=Acting.UNKNOWING, inhibits=Inhibits.NOTHING,
    ),
    IncidentKind(
        name="pfc_storm", title="Pause storm", symptom=SymptomType.PAUSING,
        notice=None, order={}, hardness=Hardness.PLAIN, severity=None, at_once=False, cooling=0.0,
        effect=Effect.SLOW, elsewhere=True, inside=False, offence=False, acting=Acting.ALLOWED, inhibits=Inhibits.NOTHING,
    ),
    IncidentKind(
        name="slow_receiver", title="Slow receiver", symptom=SymptomType.PAUSING,
        notice=None, order={}, hardness=Hardness.PLAIN, severity=None, at_once=False, cooling=0.0,
        effect=Effect.SLOW, elsewhere=True, inside=False, offence=False, acting=Acting.ALLOWED, inhibits=Inhibits.NOTHING,
    ),
    IncidentKind(
        name="incast", title="Incast", symptom=SymptomType.INCAST,
        notice=None, order={}, hardness=Hardness.PLAIN, severity=None, at_once=False, cooling=0.0,
        effect=Effect.SLOW, elsewhere=True, inside=False, offence=False, acting=Acting.ALLOWED, inhibits=Inhibits.NOTHING,
    ),
    IncidentKind(
        # 60 s: its rail or the receiver behind it may be the incident instead (design choice).
        name="congestion", title="Congestion", symptom=SymptomType.CONGESTION,
        notice=Notice(family="congestion", settle=60.0, most=16, blinds=False), order={},
        hardness=Hardness.PLAIN, severity=None, at_once=False, cooling=0.0,
        effect=Effect.SLOW, elsewhere=True, inside=False, offence=False, acting=Acting.ALLOWED, inhibits=Inhibits.NOTHING,
    ),
    IncidentKind(
        name="straggler", title="Adapter slower than its peers", symptom=SymptomType.STRAGGLER,
        notice=None, order={"nic": 1}, hardness=Hardness.SOFT, severity=None, at_once=False, cooling=0.0,
        effect=Effect.SLOW, elsewhere=True, inside=False, offence=False, acting=Acting.ALLOWED, inhibits=Inhibits.NOTHING,
    ),
    IncidentKind(
        name="storage_path", title="Storage path congested", symptom=SymptomType.STORAGE_PATH,
        notice=None, order={"nic": 2}, hardness=Hardness.SOFT, severity=None, at_once=False, cooling=0.0,
        effect=Effect.SLOW, elsewhere=True, inside=False, offence=False, acting=Acting.ALLOWED, inhibits=Inhibits.NOTHING,
    ),
    IncidentKind(
        # Design choices: 10 s, as the others of its power domain may follow within a poll; 3 hosts before they are one.
        name="agent_silent", title="Agent silent", symptom=SymptomType.AGENT_SILENT,
        notice=Notice(family="host", settle=10.0, most=3, blinds=True), order={"host": 2},
        hardness=Hardness.HARD, severity=Severity.INFO, at_once=False, cooling=0.0,
        effect=Effect.NONE, elsewhere=False, inside=False, offence=False, acting=Acting.UNKNOWING, inhibits=Inhibits.NOTHING,
    ),
    IncidentKind(
        name="host_unreachable", title="Host unreachable", symptom=None,
        notice=None, order={"host": 3}, hardness=Hardness.PLAIN, severity=Severity.WARNING, at_once=False, cooling=0.0,
        effect=Effect.OUTAGE, elsewhere=False, inside=False, offence=True, acting=Acting.UNKNOWING, inhibits=Inhibits.PARTS,
    ),
    IncidentKind(
        name="telemetry_quality", title="Unreliable telemetry", symptom=None,
        notice=Notice(family="telemetry_quality", settle=0.0, most=16, blinds=False), order={},
        hardness=Hardness.PLAIN, severity=None, at_once=False, cooling=0.0,
        effect=Effect.NONE, elsewhere=False, inside=False, offence=False, acting=Acting.UNKNOWING, inhibits=Inhibits.NOTHING,
    ),
    IncidentKind(
        name="config_drift", title="Port configuration differs from its rail", symptom=None,
        notice=Notice(family="config_drift", settle=0.0, most=16, blinds=False), order={},
        hardness=Hardness.PLAIN, severity=None, at_once=False, cooling=0.0,
        effect=Effect.NONE, elsewhere=False, inside=False, offence=False, acting=Acting.ALLOWED, inhibits=Inhibits.NOTHING,
    ),
    IncidentKind(
        name="expected_inventory", title="Missing devices", symptom=None,
        notice=Notice(family="expected_inventory", settle=0.0, most=16, blinds=False), order={},
        hardness=Hardness.PLAIN, severity=None, at_once=False, cooling=0.0,
        effect=Effect.NONE, elsewhere=False, inside=False, offence=False, acting=Acting.ALLOWED, inhibits=Inhibits.NOTHING,
    ),
    IncidentKind(
        name="topology_mismatch", title="The topology and the fabric disagree", symptom=None,
        notice=None, order={}, hardness=Hardness.PLAIN, severity=None, at_once=False, cooling=0.0,
        effect=Effect.NONE, elsewhere=False, inside=False, offence=False, acting=Acting.ALLOWED, inhibits=Inhibits.NOTHING,
    ),
    IncidentKind(
        name="repeat_offender", title="Repeat offender", symptom=None,
        notice=Notice(family="repeat_offender", settle=0.0, most=16, blinds=False), order={},
        hardness=Hardness.PLAIN, severity=None, at_once=False, cooling=0.0,
        effect=Effect.NONE, elsewhere=False, inside=False, offence=False, acting=Acting.ALLOWED, inhibits=Inhibits.NOTHING,
    ),
    IncidentKind(
        name="mass_alarm", title="Mass alarm", symptom=None,
        notice=Notice(family="mass_alarm", settle=0.0, most=16, blinds=False), order={},
        hardness=Hardness.PLAIN, severity=None, at_once=False, cooling=0.0,
        effect=Effect.NONE, elsewhere=False, inside=False, offence=False, acting=Acting.UNKNOWING, inhibits=Inhibits.ALL,
    ),
    IncidentKind(
        name="maintenance", title="Maintenance", symptom=None,
        notice=None, order={}, hardness=Hardness.PLAIN, severity=None, at_once=False, cooling=0.0,
        effect=Effect.NONE, elsewhere=False, inside=False, offence=False, acting=Acting.UNKNOWING, inhibits=Inhibits.NOTHING,
    ),
)
# fmt: on

KINDS: dict[str, IncidentKind] = by_name(_ROWS, WHERE)
"""In the order of the runbooks' index: hard faults, loss, congestion, knowledge."""

FOREIGN = IncidentKind(
    name="", title="", symptom=None, notice=None, order={}, hardness=Hardness.PLAIN, severity=None, at_once=False,
    cooling=0.0, effect=Effect.NONE, elsewhere=False, inside=False, offence=False, acting=Acting.UNKNOWING, inhibits=Inhibits.NOTHING,
)  # fmt: skip
"""For incidents of kinds without a row, stored by another version."""


def kind_of(incident: str) -> IncidentKind:
    """The row of an incident's kind, FOREIGN where it has none. For incidents that may come from a store."""
    return KINDS.get(incident, FOREIGN)


def of_traffic(incident: str, labels: Mapping[str, str]) -> bool:
    """Whether lost packets or congestion elsewhere can be the reason of an incident of this kind with these labels."""
    return kind_of(incident).elsewhere or labels.get(SHOWS) == TRAFFIC


def required(kind: str, user: str) -> IncidentKind:
    """The row of a kind that a rule or a mode opens. ValueError names the user, the kind and where the row belongs."""
    if kind not in KINDS:
        raise ValueError(f"{user}: kind {kind!r} has no row in {WHERE}")
    return KINDS[kind]
