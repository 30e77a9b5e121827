"""Hosts whose agents were silent for reasons of their own, or never reported, when they died."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine import Engine
from fabricmon.engine.diagnosis.causes import MODES
from fabricmon.engine.diagnosis.common_cause import CommonCauses
from fabricmon.engine.diagnosis.observation import Observation, Observations
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.domains.groups import Groups
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.model import Kind, Maintenance, Members, Presence, Severity
from fabricmon.sim import shapes
from fabricmon.sim.layout import Layout
from tests.engine.test_loss_of_packets import START, Run
from tests.engine.test_many_at_once import of_hosts

DOMAIN = range(8, 16)
"""Hosts of the second power domain."""


class Silent(Run):
    """Some agents never report, and their hosts do not answer the server."""

    def __init__(self, never: list[int]) -> None:
        self.never = np.array(never, np.intp)
        graph = shapes.rail_optimised(4, 8, 2, 4, planes=True)
        super().__init__(flows=True, layout=Layout.from_graph(graph, gpus=1, nvlinks=1, storage=0, power_hosts=8))

    def run(self, seconds: float) -> None:
        if self.world.now == 0.0:
            self.world.hosts.stop_agents(self.never, False)
        super().run(seconds)

    @property
    def power(self) -> str:
        return self.layout.graph.hosts[self.layout.hosts[DOMAIN[0]]]["power"]


def test_what_was_silent_or_never_reported_dies_with_its_power_domain() -> None:
    run = Silent([8])
    run.world.hosts.stop_agents(np.array([9]), False)
    run.run(120)
    assert [(i.kind, i.component) for i in run.told()] == [("agent_silent", f"host({run.layout.hosts[9]})")]
    run.strike("power_loss", run.power)
    run.run(240)
    (found,) = run.told()
    assert (found.kind, found.component) == ("fault_domain", f"power({run.power})")
    assert found.members == Members(7, 8), "of the one that never reported nothing is read"


def test_what_peers_lose_to_an_unread_host_under_maintenance_shows_no_other_host_dead() -> None:
    class Refusing(Run):
        """The agent of host 20 never runs, while its host answers."""

        def run(self, seconds: float) -> None:
            if self.world.now == 0.0:
                self.world.hosts.stop_agents(np.array([20]), True)
            super().run(seconds)

    run = Refusing(flows=False)
    hosts = run.layout.hosts
    now = START + run.world.now
    run.engine.maintenance([Maintenance("w", now, now + 900.0, (hosts[20],), ())])
    run.run(30)
    run.strike("host_crash", hosts[20])
    run.run(20)
    run.world.hosts.stop_agents(np.array([3]), False)
    run.run(60)
    (found,) = run.told()
    assert (found.kind, found.component) == ("agent_silent", f"host({hosts[3]})")


def test_a_power_domain_of_which_hosts_answer_without_their_agents_is_not_lost() -> None:
    class Refusing(Run):
        """Six of the eight hosts of a power domain have no agent, and answer."""

        def run(self, seconds: float) -> None:
            if self.world.now == 0.0:
                self.world.hosts.stop_agents(np.array(DOMAIN)[2:], True)
            super().run(seconds)

    graph = shapes.rail_optimised(4, 8, 2, 4, planes=True)
    run = Refusing(flows=False, layout=Layout.from_graph(graph, gpus=1, nvlinks=1, storage=0, power_hosts=8))
    run.world.hosts.stop_agents(np.array(DOMAIN)[:2], False)
    run.run(90)
    hosts = run.layout.hosts
    assert {(i.kind, i.component.partition("(")[0]) for i in run.told()} == {("agent_silent", "common")}
    run.world.hosts.stop_agents(np.array(DOMAIN)[2:], False)
    run.run(90)
    assert hosts[DOMAIN[-1]] in {part for i in run.told() for part in i.parts}, "once they stop to answer"


def test_a_host_that_stays_up_in_a_dead_domain_is_not_of_it() -> None:
    run = Silent([])
    hosts = run.layout.hosts
    run.world.hosts.stop_agents(np.array([9]), False)
    run.run(120)
    for host in set(DOMAIN) - {9}:
        run.strike("host_crash", hosts[host])
    run.run(240)
    dead, still = sorted(run.told(), key=lambda i: i.kind, reverse=True)
    assert (still.kind, still.component) == ("agent_silent", f"host({hosts[9]})")
    assert (dead.kind, dead.component, dead.members.bad) == ("fault_domain", f"power({run.power})", 7)


def test_peers_of_a_host_that_never_reported_show_that_it_died() -> None:
    run = Silent([8])
    assert run.told() == []
    run.strike("host_crash", run.layout.hosts[8])
    run.run(120)
    (found,) = run.told()
    assert (found.kind, found.component) == ("host_unreachable", f"host({run.layout.hosts[8]})")


def test_packets_towards_a_host_that_no_server_follows_name_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    told, gone = Engine.presence, "host-008"

    def presence(self: Engine, node: str, *state: Any) -> None:
        if node != gone:
            told(self, node, *state)

    monkeypatch.setattr(Engine, "presence", presence)
    run = Silent([8])
    run.strike("host_crash", gone)
    run.run(120)
    (found,) = run.told(Severity.INFO)
    assert (found.kind, found.component, found.severity) == ("packet_loss", f"host({gone})", "warning")
    assert found.confidence >= 0.9
    assert all(f">{gone}/" in part for part in found.parts)


def test_a_host_without_an_agent_that_stops_answering_died(world: Any) -> None:
    w = world()
    w.engine.presence("host-new", Presence.REFUSED, "connection refused", w.now)
    w.run(60)
    assert w.kinds("info") == [("agent_silent", "host(host-new)")]
    assert w.firing("warning") == []
    w.engine.presence("host-new", Presence.UNREACHABLE, "timed out", w.now)
    w.run(15)
    assert w.firing("warning") == []
    w.run(10)
    (found,) = w.firing("warning")
    assert (found.kind, found.component) == ("agent_silent", "host(host-new)")
    assert "no frame yet; without an agent it answered until" in found.evidence[0].text
    assert w.engine.symptoms()[0].since == pytest.approx(w.now - 25, abs=1), "its silence of now, not of its agent"
    w.engine.presence("host-new", Presence.REFUSED, "connection refused", w.now)
    w.run(30)
    assert [i for i in w.firing("warning") if i.evidence[0].text.startswith("no answer")] == []
    assert all(i.status == "firing" for i in w.changed), "one incident from first to last"


def test_hosts_without_agents_that_stop_answering_together_began_then(world: Any) -> None:
    """Measured before: "3 hosts stopped reporting together" since the start of the server, before their silence was
    known."""
    w = world()
    new = [f"host-new-{number}" for number in range(4)]
    for name in new:
        w.engine.presence(name, Presence.REFUSED, "connection refused", w.now)
    w.run(60)
    gone = w.now
    for name in new:
        w.engine.presence(name, Presence.UNREACHABLE, "timed out", w.now)
    w.run(15)
    assert w.firing("warning") == []
    w.run(25)
    (found,) = w.firing("warning")
    assert (found.kind, found.parts) == ("agent_silent", tuple(new))
    assert found.since == pytest.approx(gone, abs=1)


def test_a_host_whose_answers_come_and_go_stays_one_incident(world: Any) -> None:
    w = world()
    for _ in range(12):
        for state in (Presence.REFUSED, Presence.UNREACHABLE):
            w.engine.presence("host-new", state, "", w.now)
            w.run(15)
    assert w.kinds("info") == [("agent_silent", "host(host-new)")]
    assert all(i.status == "firing" for i in w.changed)


def test_a_host_that_never_answered_has_not_died(world: Any) -> None:
    w = world()
    w.engine.presence("host-new", Presence.UNREACHABLE, "timed out", w.now)
    w.run(300, step=5.0)
    assert w.firing("warning") == []


def test_an_agent_that_stops_and_a_host_that_dies_later_are_two_times(world: Any) -> None:
    w = world()
    w.silence(["host-003"], Presence.REFUSED)
    w.run(120)
    assert w.firing("warning") == []
    w.silence(["host-003"])
    at = w.now
    w.run(30)
    assert len(w.firing("warning")) == 1
    assert [s.since for s in w.engine.symptoms()] == [pytest.approx(at, abs=1)]
    assert all(i.status == "firing" for i in w.changed)
    w.speak(["host-003"])
    w.run(60)
    assert w.firing("info") == []


def test_two_hosts_of_no_known_chassis_that_fall_silent_together_are_one(world: Any) -> None:
    w = world(hosts=32)
    w.silence(["host-004", "host-005"])
    w.run(60)
    (found,) = w.firing("warning")
    assert (found.kind, found.component.partition("(")[0], found.members.bad) == ("agent_silent", "common", 2)


def test_two_hosts_far_from_each_other_that_fall_silent_together_are_two(world: Any) -> None:
    w = world(hosts=32)
    w.silence(["host-004", "host-006"])
    w.run(60)
    assert sorted(i.component for i in w.firing("warning")) == ["host(host-004)", "host(host-006)"]


def test_two_hosts_that_fall_silent_half_a_minute_apart_are_two(world: Any) -> None:
    w = world(hosts=32)
    w.silence(["host-003"])
    w.run(30)
    w.silence(["host-004"])
    w.run(60)
    assert [i.component for i in w.firing("warning")] == ["host(host-003)", "host(host-004)"]


def silent(rows: list[int], chassis: list[int], **places: list[int]) -> tuple[Observations, RowDomains]:
    domains = of_hosts(8, 2)
    nodes = domains.by_table[Kind.NODE]
    stated = {place: np.array(ids, np.int32) for place, ids in places.items()}
    ids = {**nodes.ids, "chassis": np.array(chassis, np.int32), **stated}
    domains.by_table[Kind.NODE] = Groups(ids, nodes.many)
    known = np.ones(8, np.bool_)
    seen = Observation(domains.by_table[Kind.NODE], np.array(rows), np.full(len(rows), 100.0), known)
    return {SymptomType.AGENT_SILENT: seen}, domains


@pytest.mark.parametrize(("chassis", "words"), [
    ([-1] * 8, ["common"]), ([0, 0, 1, 1, -1, -1, -1, -1], []), ([-1, 0, -1, -1, -1, -1, -1, -1], []),
])  # fmt: skip
def test_two_hosts_of_which_a_chassis_is_known_share_no_unknown_one(chassis: list[int], words: list[str]) -> None:
    observations, domains = silent([1, 2], chassis)
    found = CommonCauses().joined([], observations, domains, lambda _kind, _rows: True, 125.0)
    assert [verdict.mode.word for verdict in found] == words


@pytest.mark.parametrize(("places", "words"), [
    ({"rack": [0, 0, 0, 0, 1, 1, 1, 1]}, ["common"]),
    ({"rack": [0, 0, 1, 1, 2, 2, 3, 3]}, []),
    ({"rack": [0] * 8, "power": [0, 0, 1, 1, 2, 2, 3, 3]}, []),
    ({"row": [0, 0, -1, -1, 1, 1, 1, 1]}, ["common"]),
])  # fmt: skip
def test_two_hosts_in_different_places_share_no_chassis(places: dict[str, list[int]], words: list[str]) -> None:
    observations, domains = silent([1, 2], [-1] * 8, **places)
    found = CommonCauses().joined([], observations, domains, lambda _kind, _rows: True, 125.0)
    assert [verdict.mode.word for verdict in found] == words


@pytest.mark.parametrize(("racks", "words"), [([-1] * 8, []), ([0, 0, 1, 1, 2, 2, 3, 3], ["common"])])
def test_where_agents_fall_silent_often_two_of_one_small_place_are_one(racks: list[int], words: list[str]) -> None:
    """After four single ones in two hours, two within 10 s may be chance; both in one rack of two less."""
    causes = CommonCauses()
    for at in range(0, 7200, 100):
        observations, domains = silent([1], [-1] * 8, rack=racks)
        one = observations[SymptomType.AGENT_SILENT]
        began = {SymptomType.AGENT_SILENT: replace(one, onset=np.array([at // 1800 * 1800.0]))}
        causes.joined([], began, domains, lambda _kind, _rows: True, at + 25.0)
    observations, domains = silent([0, 1], [-1] * 8, rack=racks)
    both = observations[SymptomType.AGENT_SILENT]
    began = {SymptomType.AGENT_SILENT: replace(both, onset=np.array([7300.0, 7302.0]))}
    found = causes.joined([], began, domains, lambda _kind, _rows: True, 7325.0)
    assert [verdict.mode.word for verdict in found] == words


@pytest.mark.parametrize(("power", "hidden"), [([0, 0, 0, 0, 0, 0, 0, 1], 0), ([0, 0, 0, 0, 0, 0, 0, -1], 1)])
def test_a_host_of_another_power_domain_is_not_hidden_in_one_that_lost_power(power: list[int], hidden: int) -> None:
    """Six of seven hosts and one beside them: an effect, which no incident lists, only where its place is unknown."""
    observations, domains = silent([*range(6), 7], [-1] * 8, power=power)
    lost = next(mode for mode in MODES if mode.name == "power lost")
    rows = {SymptomType.AGENT_SILENT: np.arange(6)}
    verdict = FaultVerdict((lost,), 0, 0.99, 0.99, 50.0, rows, 100.0, {SymptomType.AGENT_SILENT: 1}, (), None)
    both = observations[SymptomType.AGENT_SILENT]
    many = replace(both, known=np.append(both.known, np.ones(8, np.bool_)))  # no cut of the server itself
    (found,) = CommonCauses().joined(
        [verdict], {SymptomType.AGENT_SILENT: many}, domains, lambda _kind, _rows: True, 125.0
    )
    assert (found.mode.word, found.explained[SymptomType.AGENT_SILENT].tolist()) == ("power", list(range(6)))
    assert len(found.effects.get(SymptomType.AGENT_SILENT, [])) == hidden
