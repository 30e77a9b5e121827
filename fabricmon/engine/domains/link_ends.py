"""The ends of links: whether what one of them was read to be is over by what another one shows
(docs/methods.md#ends-of-a-link). Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fabricmon.engine.domains.groups import Floats
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.engine.symptoms.rule_state import CLEARING, OK, RuleState
from fabricmon.fleet.link import UP
from fabricmon.fleet.view import View


@dataclass(frozen=True, slots=True)
class LinkReads:
    """When the state of the link of each PORT row was read. NaN: unknown; of a port that is gone, too.

    read    float[n], `now` at which its newest reading arrived
    period  float[n], seconds between two readings
    came    float[n], `now` at which it was seen to come up, of links that are up
    """

    read: Floats
    period: Floats
    came: Floats


def link_reads(ports: View) -> LinkReads:
    tracks, n = ports.tracks, ports.n
    with np.errstate(invalid="ignore"):
        came_up = (tracks.link[:n] == UP) & (tracks.since[:n] > tracks.first[:n])
    read = np.where(ports.present, link_state_read_at(ports), np.nan)
    period = np.fmin(ports.period("state"), ports.period("carrier"))
    return LinkReads(read, period, np.where(came_up, tracks.since[:n], np.nan))


def link_state_read_at(ports: View) -> Floats:
    """Per PORT row `now` at which its newest link state arrived, NaN unknown."""
    return np.asarray(ports.now - np.fmin(ports.age("state"), ports.age("carrier")))


def unread() -> LinkReads:
    """Of a fleet without ports."""
    return LinkReads(np.zeros(0), np.zeros(0), np.zeros(0))


def well_at_other_end(state: RuleState, row: int, domains: RowDomains, reads: LinkReads) -> bool:
    """Whether the open symptom of the state of a link at this row shows nothing now, as another end is known without
    it. Which of them counts:

    * Of a row that is not known any more what was read later at the other end.
    * The port of a host, which is read more often, before a sweep.
    * Of two ends that sweeps read: one that came up after the other one was last read with it. One that was up
      all the time shows a link that works in one direction only.
    """
    first, swept, n = domains.echo.get(row, row), domains.assigned.swept, len(state.known)
    others = [other for other in domains.reported_by.get(first, ()) if other != row and other < n]
    well = [other for other in others if state.known[other] and state.phase[other] == OK]
    if not well:
        return False
    with_it = state.entered[row] if state.phase[row] == CLEARING else reads.read[row]
    if not state.known[row]:
        return any(not reads.read[other] <= with_it for other in well)
    if not swept[row]:
        return False
    own = any(not swept[other] and not reads.period[other] > reads.period[row] for other in well)
    return own or any(reads.came[other] > with_it for other in well)
