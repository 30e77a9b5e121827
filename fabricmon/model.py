"""The vocabulary: readings, symptoms, incidents, notifications. Pure data.

A counter's way to an alert: Sample -> Snapshot -> Frame -> Fleet -> Symptom -> Incident -> Notification.

Units and time, everywhere in fabricmon:
  * values are float64 in base units (bytes, seconds, ratios 0..1); NaN means unknown, never 0.
  * `wall` is seconds since the Unix epoch; `taken` is seconds of the *node's* monotonic clock and is the
    only time rates may be computed from (docs/methods.md#counter-hygiene: never the server's clock).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from msgspec import Struct


class RankedEnum(StrEnum):
    """Words in an order; `rank` counts from 0."""

    @cached_property
    def rank(self) -> int:
        return list(type(self)).index(self)


class Kind(StrEnum):
    """What sort of thing a row describes; the fleet has one table per kind."""

    PORT = "port"  # one end of a link: HCA, RoCE, EFA, plain Ethernet or switch port
    NVLINK = "nvlink"
    GPU = "gpu"
    PCIE = "pcie"
    NODE = "node"
    FLOW = "flow"  # what one port sent to one peer


class ComponentId(NamedTuple):
    """Name of one row of the fleet: ("port", "host-007", "mlx5_3/1")."""

    kind: Kind
    node: str
    name: str

    def __str__(self) -> str:
        return f"{self.node}/{self.name}" if self.name else self.node


class SweptId(ComponentId):
    """Name of a row that a sweep reads, a port elsewhere: ("port", "host-007", "leaf-3/12"), equal to the same as a
    `ComponentId`. A reader sees the port, "leaf-3/12": the node only read it."""

    __slots__ = ()

    def __str__(self) -> str:
        return self.name


def row_id(kind: Kind, node: str, name: str, labels: Mapping[str, str]) -> ComponentId:
    """The name of a row with these labels."""
    return (SweptId if kind is Kind.PORT and labels.get("swept") else ComponentId)(kind, node, name)


def rows_by_name(ids: Iterable[ComponentId]) -> dict[str, int]:
    """Row by the name that a reader sees; where a sweep reads a host's own port, too, the host's row."""
    found: dict[str, int] = {}
    for row, component in enumerate(ids):
        if component.node and (str(component) not in found or not isinstance(component, SweptId)):
            found[str(component)] = row
    return found


class Sample(NamedTuple):
    """One reading: the cell (component, counter) of a snapshot. Value in the counter's exported unit."""

    component: ComponentId
    counter: str
    value: float


# --------------------------------------------------------------------------------------------------------
# Node side: what collectors return and what a snapshot is made of


class Component(Struct, frozen=True):
    """A row of a part. `labels` are static facts about it; a change of any of them makes a new inventory.

    name    unique within (node, kind). An RDMA port is "<device>/<port>" ("mlx5_0/1"); a plain network
            interface is its name ("eth0"). A collector that reads the netdev of an RDMA port uses the RDMA
            port's name, so that both collectors' columns meet in one fleet row.
    labels  words used by rules, topology and metrics. PORT: device, port, netdev, link_layer ("InfiniBand",
            "Ethernet", "Unknown"), node_guid, port_guid, sys_image_guid, firmware, board, pci, driver, role
            ("compute", "storage", "management", "unknown"), hca_type, bond (master netdev of a bonded leg).
            GPU ("gpu3"): gpu, uuid, pci, model, driver, cluster and clique (the NVLink domain), chassis, slot, tray,
            module. NVLINK ("gpu3/link7"): gpu, link, uuid, pci, remote ("gpu", "switch"), remote_pci.
            PCIE ("0000:17:00.0"): device (the same), class ("nic", "gpu", "nvswitch", "bridge"), rdma (its RDMA
            device), owner (the same, else the interface or "gpu3"), path (bridges above it, the root port first), numa,
            nearest (the closest GPUs of an adapter, the closest adapters of a GPU) and relation (how close: PIX, PXB,
            PHB, NODE, SYS).
            FLOW ("mlx5_3/1>host-009/mlx5_3/1"): port (name of the node's own PORT row), peer (node and name of the far
            PORT row), path (names of the switches in order, parted by blanks; "a:33" leaves switch a by its port 33,
            where parallel cables go on; absent where it is unknown or changes from packet to packet).
    """

    name: str
    labels: dict[str, str] = {}


class Part(Struct, frozen=True):
    """The shape of one collector's values of one kind: a rows x columns rectangle of float64, row-major.

    columns  catalogue names; "raw:<directory>/<file>" for a counter of the host that is not in the catalogue.
    period   seconds between two reads of this part in normal operation.
    wire     sent to the server; False: exported by the agent's /metrics only (Counter.wire).
    """

    collector: str
    kind: Kind
    columns: tuple[str, ...]
    components: tuple[Component, ...]
    period: float = 10.0
    wire: bool = True

    @property
    def size(self) -> int:
        return len(self.columns) * len(self.components)

    @property
    def fast(self) -> bool:
        """Read at least once a second: it holds states, and a change in it is sent and evaluated at once."""
        return self.period <= 1.0


class Identity(Struct, frozen=True):
    """Which agent this is. Two different `agent` under one `node` are a cloned node."""

    node: str
    boot_id: str
    agent: str  # stable over agent restarts on one installation: from machine-id, else random
    version: str
    started: float  # wall time this agent process started


class Inventory(Struct, frozen=True):
    """What a node has, in the order its values travel. A change of shape or of a label raises `id`."""

    id: int
    identity: Identity
    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        return sum([len(p.columns) * len(p.components) for p in self.parts])


class Fault(Struct, frozen=True):
    """A source that could not be read or understood; costs that value only."""

    collector: str
    component: str
    source: str  # path or query
    error: str


@dataclass(slots=True)
class Reading:
    """What one run of a collector returns.

    parts    same tuple object as last time when the shape did not change (identity is checked, cheap).
    values   concatenation of the parts' rectangles, float64, NaN unknown.
    taken    node monotonic seconds at the middle of the read.
    queries  how many hardware (firmware) queries the read cost, by the estimates of the catalogue.
    """

    parts: tuple[Part, ...]
    values: array[float]
    taken: float
    faults: tuple[Fault, ...] = ()
    queries: int = 0


class Event(Struct, frozen=True):
    """An event that the kernel reported. A reason to read counters, and never counted as one.

    kind       "link", "xid", "sxid", or the pattern of a kernel log line, "mlx5_health_lost" (kernel_patterns)
    component  Component.name of a row of kind `of`; "" for the node itself
    text       one line for a person: "eth0 lost carrier"
    fields     numbers that it has; of a kernel log line "severity" (Severity.rank), and "left_out", how many of
               its sort were not reported since the last
    """

    seq: int
    wall: float
    kind: str
    component: str
    text: str
    fields: dict[str, float] = {}
    of: Kind = Kind.PORT


@dataclass(slots=True)
class Snapshot:
    """The newest known state of one node: all parts, each with the time it was read.

    taken    one per part, node monotonic seconds; NaN before its first read.
    values   all parts' rectangles concatenated in inventory order, float64.
    """

    inventory: Inventory
    seq: int
    wall: float
    taken: list[float]
    values: array[float]


class Presence(StrEnum):
    """State of the server's pull of one agent. Absence is never recovery."""

    LIVE = "live"  # frames arrive
    SLOW = "slow"  # connected, but frames are late
    REFUSED = "refused"  # connection refused: the agent is down
    UNREACHABLE = "unreachable"  # no answer: the node or its network is down
    CLONED = "cloned"  # duplicate node name
    INCOMPATIBLE = "incompatible"  # another frame version
    NEVER = "never"  # expected, never seen


class Checked(Struct, frozen=True):
    """Components of one technology of a node. `links`: links of the checked ones, where one has several (NVLinks)."""

    technology: str
    checked: int
    unknown: int
    links: int = 0


class Unchecked(Struct, frozen=True, order=True):
    """A component whose condition is unknown. `why`: "state not read"."""

    component: str
    technology: str
    why: str


class CheckedNode(Struct, frozen=True):
    """Which components of a node were checked. `unread`: some of the others, by name; `none_expected`: the node may be
    without a fabric."""

    counts: tuple[Checked, ...] = ()
    unread: tuple[Unchecked, ...] = ()
    none_expected: bool = False

    @property
    def checked(self) -> int:
        return sum(each.checked for each in self.counts)

    @property
    def unknown(self) -> int:
        return sum(each.unknown for each in self.counts)


class NodeView(Struct, frozen=True):
    """One node as the engine sees it now, for pages and the API."""

    node: str
    presence: Presence
    detail: str  # words of the pull: "connection refused", "" when live
    since: float  # wall time of the last change of presence
    last_frame: float | None = None  # wall time (the engine's `now`) of the last frame; None: never
    version: str = ""
    boot_id: str = ""
    ports: int = 0
    gpus: int = 0
    symptoms: int = 0  # open symptoms on this node's components, its own ("agent_silent") included
    maintenance: str = ""  # id of the window the node is in, "" when none
    checked: CheckedNode | None = None  # None before its first frame


class Maintenance(Struct, frozen=True):
    """A maintenance window: its components make no incident of warning or higher from `starts` until `ends`.

    hosts       node names; a `*` stands for any characters ("host-04*").
    components  words as in Incident.component ("leaf(su1/rail2)"), same wildcard.
    """

    id: str
    starts: float
    ends: float
    hosts: tuple[str, ...] = ()
    components: tuple[str, ...] = ()
    author: str = ""
    comment: str = ""


# --------------------------------------------------------------------------------------------------------
# Evaluation


class Severity(RankedEnum):
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class Evidence(Struct, frozen=True):
    """One reading that is evidence for (or against) a verdict, with its formula."""

    component: str
    text: str  # "link down for 10 s"
    formula: str = ""  # "P = 1000/down, half-life 900 s; raise > 2000 (docs/methods.md#flap-damping)"
    value: float | None = None
    limit: float | None = None
    for_it: bool = True
    unit: str = ""  # of value and limit: "ratio", "seconds", "nats"; "" a plain number
    measure: str = ""  # what was compared (rules/measures.py): "congestion.stalled"


class RuledOut(Struct, frozen=True):
    """Another possible cause, and the reason why it is ruled out.

    component  "leaf(su1/rail2)", or "32 separate faults"
    reason     "31 of its 32 observed members show no sign of it"
    behind     nats by which it is less likely; None: its members are evidence against it, so it was no candidate
    """

    component: str
    reason: str
    behind: float | None = None


class Symptom(Struct, frozen=True):
    """A rule is true of a component, after hysteresis."""

    rule: str
    kind: str  # incident kind words of the rule: "link_down", "link_flapping", ...
    component: ComponentId
    severity: Severity
    since: float  # wall time of the first poll that showed it
    value: float
    evidence: tuple[Evidence, ...] = ()
    info: dict[str, str] = {}  # e.g. {"slow": "true"}


class SymptomChange(Struct, frozen=True):
    """A transition of one symptom. `reason` is text for the history.

    witnessed  its component was seen without it before: `since` is when it began, not when it was first looked at
    """

    symptom: Symptom
    opened: bool
    at: float
    reason: str
    witnessed: bool = True


class Members(Struct, frozen=True):
    bad: int
    of: int


class HistoryEntry(Struct, frozen=True):
    at: float
    change: str  # "opened", "severity", "members", "kind", "resolved", "restored", "silenced", ...
    reason: str


class JobVerdict(RankedEnum):
    """What an incident does to a job, the worst last."""

    AT_RISK = "at_risk"  # it crosses what failed, or has a part there, and none of its links shows it
    SLOW = "slow"
    STALL = "stall"  # it waits, and goes on when the outage ends in time
    CRASH = "crash"  # the outage is longer than its communication survives


class JobImpact(Struct, frozen=True):
    """One job that an incident hits or puts at risk.

    source  "slurm", "kubernetes", "file /etc/fabricmon/jobs.json"
    reason  why this verdict, one sentence
    nodes   its nodes that are hit (of one at risk: that are in what failed), at most 16 named; `hit` counts all
    of      how many nodes it has
    since   wall time of the first sign on its nodes
    gone    wall time at which its scheduler was first seen to list it no more; None while it is listed
    """

    id: str
    name: str
    user: str
    source: str
    verdict: JobVerdict
    reason: str
    nodes: tuple[str, ...]
    hit: int
    of: int
    since: float
    gone: float | None = None

    @property
    def title(self) -> str:
        """ "train-70b#4711", or the id where that holds the name."""
        return job_title(self.id, self.name)


def job_title(id: str, name: str) -> str:
    return id if not name or name in id else f"{name}#{id}"


class Impact(Struct, frozen=True):
    """Jobs affected or at risk by one incident, the worst first.

    state   "known"; "partly": one of several schedulers has not answered for long; "unknown": none has, so that an
            empty list does not mean that there is no job
    source  schedulers, separated by ", "
    as_of   wall time of the oldest of the answers used; None where there was none
    jobs    at most 32; `total` counts all
    """

    state: str
    source: str
    as_of: float | None
    jobs: tuple[JobImpact, ...] = ()
    total: int = 0


class Incident(Struct, frozen=True):
    """One cause a person can act on. The webhook body carries exactly these fields (see docs/webhook.md).

    id         deterministic: the same cause gets the same id on every server (engine.situation.incident_id).
    kind       words of the scenario catalogue: link_down, link_flapping, link_errors, link_degraded, nic_fault,
               fault_domain, agent_silent, host_unreachable, telemetry_quality, maintenance, ...
    component  "link(host-007/mlx5_3/1)", with the far end when known "link(host-007/mlx5_3/1, leaf-3/12)", one of two
               cables "link(leaf-1/9, spine-0/1, leaf-2/9, spine-0/2)" (docs/methods.md#cables-in-series),
               "nic(host-007/mlx5_3)", "host(host-007)", "leaf(su1/rail2)", "rail(su1/6)", "power(rack-2)".
    members    bad of all members of the component ("32 of 32").
    """

    id: str
    status: str  # "firing" | "resolved"
    severity: Severity
    kind: str
    component: str
    since: float
    confidence: float
    title: str
    why: str
    action: str
    evidence: tuple[Evidence, ...] = ()
    members: Members = Members(0, 0)
    labels: dict[str, str] = {}
    updated: float = 0.0
    resolved: float | None = None
    candidates: tuple[str, ...] = ()  # ambiguity group: other components with the same evidence
    parts: tuple[str, ...] = ()  # names of the bad members, at most 64
    history: tuple[HistoryEntry, ...] = ()
    revision: int = 0  # raised by each change that a receiver should know
    impact: Impact | None = None  # None: it can hit no job, or no source of jobs is configured
    ruled_out: tuple[RuledOut, ...] = ()  # causes that the same symptoms would suggest

    @property
    def openings(self) -> tuple[float, ...]:
        """Wall times at which its episodes opened, the newest last; `since` where the history has none."""
        found = tuple(entry.at for entry in self.history if entry.change in ("opened", "reopened"))
        return found or (self.since,)


class Face(Struct, frozen=True):
    """Properties a receiver may identify an incident by (Alertmanager: labels). Changes within an episode."""

    kind: str
    component: str
    severity: Severity


class NotifiedState(Struct, frozen=True):
    """The state of one incident in a notification, as receivers compare it (`notify/identity.py`).

    key        of the content: the same on every server
    episode    of the incident, by its onset
    reminders  in this episode so far, this one included
    """

    key: str
    episode: str
    reminders: int = 0


class Notification(Struct, frozen=True):
    """One notification of one receiver. `key` is the Idempotency-Key: same key, same notification.

    before  incident id -> the faces sent to this receiver in the episode before this notification, oldest first.
    states  incident id -> its state; {} in a notification that release 0.1.0 stored.
    waiting  how many further incidents wait for a notification to this receiver.
    messages  that the receiver makes of it, for its budget.
    """

    key: str
    receiver: str
    incidents: tuple[Incident, ...]
    created: float
    reason: str  # "new incident", "resolved", "severity rose", "repeat after 4h"
    before: dict[str, tuple[Face, ...]] = {}
    states: dict[str, NotifiedState] = {}
    waiting: int = 0
    messages: int = 1


@dataclass(slots=True)
class Change:
    """Result of one tick of the engine."""

    symptoms: list[SymptomChange] = field(default_factory=list)
    incidents: list[Incident] = field(default_factory=list)
