"""What is known of the health of ports when losses of packets are diagnosed. Pure data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fabricmon.engine.domains.groups import Floats, Groups, Ids, Ints, Mask
from fabricmon.engine.domains.transit import LeafCables


@dataclass(slots=True)
class PortHealth:
    """Health of ports for the diagnosis of losses, per PORT row.

    groups  of the rows
    unwell  what was wrong with each
    ratio   float[n], share of packets that it lost, NaN unknown
    near    int[flows], row from which each flow goes, -1 unknown
    now     wall time
    towards bool[n], packets to it were lost (Losses.lost_towards)
    read    float[n], wall time of the newest window of its losses, NaN unknown
    flows_read  float[flows], the same of the flows
    rails   int[n], number of its rail, the same in all units, -1 unknown; None: of no port is it known
    lost    float[n], packets a second that it lost in those windows, NaN unknown; None: of no port is it known
    errors  float[n], bit errors a second that it has received since they began, which bound what others lose on their
            way to it; NaN and None as above
    islands int[n], the leaf that all packets of a port stay below, -1 none; None: of no port
    work    when each port carried traffic, and for which job; None: of no port
    transit cables between leaves; None: these are joined by switches above them, or not known
    counted bool[n], what is lost on its way to a port is counted there; None: at no port
    """

    groups: Groups
    unwell: Unwell
    ratio: Floats
    near: Ints
    now: float
    towards: Mask
    read: Floats
    flows_read: Floats
    rails: Ids | None = None
    lost: Floats | None = None
    errors: Floats | None = None
    islands: Ids | None = None
    work: PortWork | None = None
    counted: Mask | None = None
    transit: LeafCables | None = None


@dataclass(slots=True)
class PortWork:
    """Work of PORT rows.

    newest  wall time of the newest slot with traffic, -inf for none, NaN where no traffic is read
    began   wall time of the first slot of its present or last work, NaN never
    received  bool: it received traffic in its newest slot
    job     number of the only job of its host, -1 none or unknown
    """

    newest: Floats
    began: Floats
    received: Mask
    job: Ids


@dataclass(slots=True)
class Unwell:
    """What was wrong with PORT rows: wall times from when on, NaN for not at all.

    worn     it lost some of what its peers sent it: errors
    damaged  it lost some or all of it: a fault of its adapter
    dead     it answered nothing, all the time or at times: its link is down or flaps, or its adapter is gone
    silent   it answered nothing if its host is dead, whose agent fell silent
    over     until when losses may be of its being dead, infinite where it still is; what was read before is explained
    leaves   per leaf the same, where it is dead as a whole: also on its way to ports of which nothing is known; -inf
    """

    worn: Floats
    damaged: Floats
    dead: Floats
    silent: Floats
    over: Floats
    leaves: Floats

    def sick(self, at: Floats | float) -> Mask:
        """Rows whose own links fail at some time; a silent agent alone is no evidence about them."""
        with np.errstate(invalid="ignore"):
            dead = np.isfinite(self.dead) & (self.over >= at)
        return np.asarray(np.isfinite(self.worn) | np.isfinite(self.damaged) | dead)
