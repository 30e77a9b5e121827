"""A scenario: a fabric, its jobs, a timeline of faults, and the expected incidents. Pure.

Times are seconds after the scenario's zero, which is where the warm-up ends. How to write one: docs/scenarios.md.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from fabricmon.model import Severity
from fabricmon.units import Duration

Positive = Annotated[int, Meta(ge=1)]
Share = Annotated[float, Meta(ge=0, le=1)]


class ScenarioError(ValueError):
    """A scenario that cannot be run. `path` is the place in it ("timeline[2].fault")."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(f"{path}: {text}" if path else text)
        self.path, self.text = path, text


class Given(Struct, frozen=True, forbid_unknown_fields=True):
    """The fabric. `sizes` are arguments of the shape in `sim/layout.py`; a name such as R1 has its own."""

    shape: str
    sizes: dict[str, Any] = {}


class Work(Struct, frozen=True, forbid_unknown_fields=True):
    """One job on some hosts; its pattern and numbers as in `sim/traffic.py`.

    hosts   names with `*` for any characters, a number (placed by the seed), or a share such as 70%
    at      when it starts; None: before the run begins
    until   when it ends; None: never
    """

    pattern: str = "ring"
    hosts: Positive | str | tuple[str, ...] = "*"
    name: str = ""
    at: Duration | None = None
    until: Duration | None = None
    scale: Annotated[float, Meta(gt=0)] = 1.0
    peers: Positive = 2
    checkpoint_every: Duration = Duration(0)
    checkpoint_lasts: Duration = Duration(90)


class Happening(Struct, frozen=True, forbid_unknown_fields=True, rename={"arguments": "with"}):
    """One entry of the timeline: a fault or look-alike of `sim/faults/`.

    at         when it begins
    fault      a key of FAULTS
    where      its component, as incidents name it; "" where the fault needs none
    name       for references by expectations
    """

    fault: str
    at: Duration = Duration(0)
    where: Any = ""
    name: str = ""
    arguments: dict[str, Any] = {}


class MaintenanceWindow(Struct, frozen=True, forbid_unknown_fields=True):
    """A maintenance window. Hosts and components as in `fabricmon maintenance`; `*` matches any characters."""

    lasts: Duration
    starts: Duration = Duration(0)
    hosts: tuple[str, ...] = ()
    components: tuple[str, ...] = ()


class CandidateGroup(Struct, frozen=True, forbid_unknown_fields=True):
    """Required among the other candidates of an incident: at least `least` that match `like`."""

    like: str
    least: Positive = 1


class Required(Struct, frozen=True, forbid_unknown_fields=True, rename={"earliest": "from", "fault": "of"}):
    """An incident that must be opened.

    kind, component  as in incidents; `*` matches any characters. Of a link either end may come first, and the first
                     end alone is enough. A list: any of them.
    severity         the highest it may reach; it must reach one of those listed
    by               seconds from the first poll that could detect the fault until the incident is open
    earliest         it must not be open sooner after the fault
    fault            `name` of the timeline entry that `by` and `earliest` count from; "" the scenario's zero
    confidence       least confidence, reached in time as well
    mode             of the incident's label `mode`; a list: any of them
    members          "32 of 32": at least so many bad, of exactly so many
    labels           label -> value, `*` allowed
    candidates       groups that must be among the other candidates
    only_candidates  patterns: in the end every other candidate must match one of them; [] allows none
    contains         patterns that its title, reason or evidence must contain, ignoring case
    resolved_by      it must be resolved not later than this, and ...
    resolved_from    ... not sooner, both counted from the fault
    incident         entries with the same word here must be one and the same incident
    """

    kind: str | tuple[str, ...]
    component: str | tuple[str, ...]
    by: Duration
    severity: Severity | tuple[Severity, ...] = (Severity.INFO, Severity.WARNING, Severity.CRITICAL)
    earliest: Duration = Duration(0)
    fault: str = ""
    confidence: Share = 0.0
    mode: str | tuple[str, ...] = "*"
    members: Annotated[str, Meta(pattern=r"^\d+ of \d+$|^$")] = ""
    labels: dict[str, str] = {}
    candidates: tuple[CandidateGroup, ...] = ()
    only_candidates: tuple[str, ...] | None = None
    contains: tuple[str, ...] = ()
    resolved_by: Duration | None = None
    resolved_from: Duration = Duration(0)
    incident: str = ""


class Forbidden(Struct, frozen=True, forbid_unknown_fields=True, rename={"earliest": "from"}):
    """Incidents that must not be open between `earliest` and `until`; `severity`: of this one or higher.

    `but`: components that are exempt; `mode` and `labels` restrict it.
    """

    kind: str | tuple[str, ...] = "*"
    component: str | tuple[str, ...] = "*"
    severity: Severity = Severity.INFO
    earliest: Duration | None = None
    until: Duration | None = None
    but: tuple[str, ...] = ()
    mode: str | tuple[str, ...] = "*"
    labels: dict[str, str] = {}


class Allowed(Struct, frozen=True, forbid_unknown_fields=True):
    """Incidents that `only` permits up to `severity` although they are not required."""

    kind: str | tuple[str, ...] = "*"
    component: str | tuple[str, ...] = "*"
    severity: Severity = Severity.CRITICAL


class Expectations(Struct, frozen=True, forbid_unknown_fields=True):
    """Required, forbidden and allowed incidents.

    only           every incident of warning or higher that is neither required nor allowed is a failure
    notifications  most incidents that one receiver of warnings is notified of, without resolutions; None: any number
    rates          the largest share by which a port's measured rate may be off the true one; None: not compared
    """

    required: tuple[Required, ...] = ()
    forbidden: tuple[Forbidden, ...] = ()
    allowed: tuple[Allowed, ...] = ()
    only: bool = False
    notifications: Annotated[int, Meta(ge=0)] | None = None
    rates: Share | None = None


class Scenario(Struct, frozen=True, forbid_unknown_fields=True):
    """One scenario.

    about      description
    poll       seconds between two reads of a node
    tick       seconds between two evaluations while a symptom is pending; None: every second where nodes are read every
               10 s
    duration   time after its zero
    warmup     time before its zero, in which rules learn what is usual
    flows      whether nodes report loss to each peer and its path (level L2), else their own counters only (L1)
    spray      whether packets of one flow take all paths in turn, so that no flow has a path
    noise      whether the benign background of a large fabric is simulated
    scheduler  whether the server gets the running jobs
    steady     mean load of ports that no job uses, as a share of the line rate; None: the simulator's own
    """

    name: str
    fabric: Given
    duration: Duration
    expect: Expectations
    about: str = ""
    poll: Duration = Duration(10)
    tick: Duration | None = None
    warmup: Duration = Duration(300)
    flows: bool = False
    spray: bool = False
    noise: bool = True
    traffic: tuple[Work, ...] = ()
    steady: Share | None = None
    scheduler: bool = True
    timeline: tuple[Happening, ...] = ()
    maintenance: tuple[MaintenanceWindow, ...] = ()
