"""Losses of other ports show that a silent host is dead only if these ports may have sent to it, and to it alone."""

from __future__ import annotations

import numpy as np
import pytest

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.losses import unwell
from fabricmon.engine.diagnosis.observation import Observation
from fabricmon.engine.diagnosis.witnesses import DeadHosts, witnesses
from fabricmon.engine.domains.groups import Groups, Ints
from fabricmon.engine.domains.port_health import PortHealth, PortWork

HOSTS, RAILS = 40, 4
SILENT, NEXT, LATE = 3, 4, 9
FELL = 10_000.0
STEADY = FELL - 5_000.0
ALL = tuple(host * RAILS + rail for host in (NEXT, 5) for rail in range(RAILS))
OTHERS = tuple(host * RAILS + rail for host in (11, 12) for rail in range(RAILS))
ONE_RAIL = tuple(host * RAILS for host in range(NEXT, NEXT + 4))


def shown(
    lossy: tuple[int, ...], *, silent: dict[int, float] | None = None, work: PortWork | None = None,
    away: tuple[float, ...] = (), dead: DeadHosts | None = None, share: float = 1e-7,
    supplies: tuple[tuple[int, ...], ...] = (), early: tuple[int, ...] = (),
) -> list[int]:  # fmt: skip
    """Silent hosts that are shown to be dead, of HOSTS with a port on each rail; `lossy` ports began to lose `share` of
    their packets then, the `early` ones before it. `supplies`: hosts of each power domain; else none is known."""
    rows = np.arange(HOSTS * RAILS, dtype=np.int32)
    host, none = rows // RAILS, np.full(len(rows), -1, np.int32)
    ids = {"link": rows, "nic": rows, "host": host, "leaf": rows % RAILS, "plane": none + 1, "network": none + 1}
    groups, power = Groups(ids), np.full(HOSTS, -1, np.int32)
    for number, hosts in enumerate(supplies):
        power[list(hosts)] = number
    nodes = Groups({"host": np.arange(HOSTS, dtype=np.int32), "power": power})
    since = {SILENT: FELL} if silent is None else silent
    onset = np.array([since[at] for at in sorted(since)])
    never, zero = np.full(len(rows), np.nan), np.zeros(len(rows), np.bool_)
    seen = Observation(nodes, np.array(sorted(since), np.int64), onset, np.ones(HOSTS, np.bool_))
    at = np.array(lossy, np.int64)
    began = np.where(np.isin(at, early), FELL - 5.0, FELL + 10.0)
    lost = Observation(groups, at, began, np.ones(len(rows), np.bool_))
    found = {SymptomType.AGENT_SILENT: seen, SymptomType.PACKET_LOSS: lost}
    now = FELL + 30.0
    ports = PortHealth(
        groups, unwell(found, groups, never, never, now), np.where(np.isin(rows, at), share, np.nan),
        np.empty(0, np.int64), now, zero, never, np.empty(0), rows % RAILS, work=work,
    )  # fmt: skip
    result = witnesses(found, ports, np.array(away))
    if dead is not None:
        result = dead.with_earlier(result, found, ports.ratio)
    return [] if result is None else [int(row) for row in result.rows]


def working(
    *, began: dict[int, float] | None = None, idle: tuple[int, ...] = (), jobs: dict[int, int] | None = None
) -> PortWork:
    """All ports at work since long ago, but for those of some hosts."""
    host = np.arange(HOSTS * RAILS) // RAILS
    newest, first = np.full(len(host), FELL + 30.0), np.full(len(host), STEADY)
    for at, moment in (began or {}).items():
        first[host == at] = moment
    newest[host == SILENT] = FELL
    newest[np.isin(host, idle)] = -np.inf
    job: Ints = np.full(len(host), -1)
    for at, number in (jobs or {}).items():
        job[host == at] = number
    return PortWork(newest, first, newest > -np.inf, job.astype(np.int32))


def test_ports_of_two_hosts_on_all_rails_show_a_dead_host() -> None:
    assert shown(ALL) == [SILENT]
    assert shown(ALL, work=working()) == [SILENT]


def test_how_much_is_lost_must_be_known() -> None:
    """Ports that are idle since keep the symptom for a while, but no amounts: a part of the fabric may lose them."""
    assert shown(ALL, share=np.nan) == []
    assert shown(ALL, share=1e-3) == []


def test_losses_on_one_rail_of_many_are_of_something_on_that_rail() -> None:
    assert shown(ONE_RAIL, work=working()) == []
    half = tuple(row for row in ALL if row % RAILS < RAILS // 2)
    assert shown(half, work=working()) == [SILENT]


def test_losses_on_rails_that_a_host_did_not_work_on_are_towards_another() -> None:
    """It works on rails 0 and 1 only."""
    work = working()
    work.newest[[SILENT * RAILS + 2, SILENT * RAILS + 3]] = -np.inf
    others = tuple(host * RAILS + rail for host in (NEXT, 5) for rail in (2, 3))
    assert shown(others, work=work) == []
    assert shown((*others, NEXT * RAILS, 5 * RAILS), work=work) == [SILENT]


def test_nothing_is_lost_towards_a_host_that_did_no_work() -> None:
    assert shown(ALL, work=working(idle=(SILENT,))) == []
    unknown = working()
    unknown.newest[:] = np.nan
    assert shown(ALL, work=unknown) == [SILENT]


def test_ports_that_began_their_work_afterwards_did_not_send_to_it() -> None:
    late = {NEXT: FELL + 8.0, 5: FELL + 8.0}
    assert shown(ALL, work=working(began=late)) == []
    assert shown((*ALL, 6 * RAILS, 7 * RAILS + 1), work=working(began=late)) == [SILENT]


@pytest.mark.parametrize(("jobs", "found"), [
    ({SILENT: 1, NEXT: 2, 5: 2}, []), ({SILENT: 1, NEXT: 1, 5: 1}, [SILENT]), ({SILENT: 1, NEXT: 1, 5: 2}, []),
    ({NEXT: 2, 5: 2}, [SILENT]), ({SILENT: 1}, [SILENT]),
])  # fmt: skip
def test_ports_of_another_job_do_not_send_to_it(jobs: dict[int, int], found: list[int]) -> None:
    assert shown(ALL, work=working(jobs=jobs)) == found


def test_a_host_that_stopped_to_answer_at_that_time_may_be_the_dead_one() -> None:
    assert shown(ALL, away=(FELL + 7.0,)) == []
    assert shown(ALL, away=(FELL - 200.0,)) == [SILENT]


@pytest.mark.parametrize(("earlier", "found"), [(70.0, [SILENT]), (45.0, [])])
def test_losses_that_began_too_late_for_another_silent_host_are_towards_this_one(
    earlier: float, found: list[int]
) -> None:
    """Peers of a host that dies lose packets within a minute (docs/methods.md#missing-agents)."""
    assert shown(ALL, silent={SILENT: FELL, LATE: FELL - earlier}) == found


def test_a_dead_host_stays_so_until_another_is_known_to_have_fallen_silent_then() -> None:
    dead = DeadHosts()
    assert shown(ALL, dead=dead) == [SILENT]
    assert shown((), dead=dead) == [SILENT]
    assert shown((), dead=dead, silent={SILENT: FELL, LATE: FELL + 300.0}) == [SILENT]
    assert shown((), dead=dead, silent={SILENT: FELL, LATE: FELL + 7.0}) == []


@pytest.mark.parametrize(("early", "found"), [((), [SILENT]), ((48,), [SILENT]), ((48, 52), [])])
def test_a_dead_host_stays_so_beside_one_that_a_single_loss_may_be_towards(
    early: tuple[int, ...], found: list[int]
) -> None:
    """Of the losses when it fell silent, which began late for the other host, some ports' began early."""
    dead, silent = DeadHosts(), {SILENT: FELL, LATE: FELL - 55.0}
    assert shown((*ALL, *early), silent=silent, dead=dead, early=early) == found
    assert shown((), silent=silent, dead=dead) == found


@pytest.mark.parametrize(("later", "supply", "found"), [
    (2.5, (SILENT, LATE), [SILENT, LATE]),  # the supply is lost
    (16.0, (SILENT, LATE), []),  # the agents of one supply stopped one after the other: which of them died is not known
    (2.5, (), []),
])  # fmt: skip
def test_hosts_of_one_supply_are_dead_together_only_if_they_fell_silent_at_one_moment(
    later: float, supply: tuple[int, ...], found: list[int]
) -> None:
    assert shown(ALL, silent={SILENT: FELL, LATE: FELL + later}, supplies=(supply,)) == found


@pytest.mark.parametrize(("here", "there", "found"), [(3, 2, "here"), (2, 3, "there"), (2, 2, "neither")])
def test_of_two_supplies_that_fell_silent_the_dead_one_is_that_of_more_hosts(here: int, there: int, found: str) -> None:
    """Of those of the one supply a further one stopped later."""
    first, second = [SILENT + at for at in range(here)], [20 + at for at in range(there)]
    silent = dict.fromkeys(first, FELL) | dict.fromkeys(second, FELL + 20.0) | {29: FELL + 40.0}
    dead = {"here": first, "there": second, "neither": []}[found]
    assert shown(OTHERS, silent=silent, supplies=(tuple(first), (*second, 29))) == dead
