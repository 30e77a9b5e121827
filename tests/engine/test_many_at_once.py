"""Many like symptoms at once are one cause: adapters with a slow PCIe link, cables of one switch, what groups leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from fabricmon.catalogue.symptom_type import SymptomType
from fabricmon.engine.diagnosis.beginnings import beginnings
from fabricmon.engine.diagnosis.causes import MODES, ONE_OF_THREE
from fabricmon.engine.diagnosis.common_cause import CommonCauses
from fabricmon.engine.diagnosis.diagnose import diagnose
from fabricmon.engine.diagnosis.gray import gray
from fabricmon.engine.diagnosis.group_modes import HARD_MODES, PARTIAL_MODES, TOGETHER_MODES
from fabricmon.engine.diagnosis.observation import Observation
from fabricmon.engine.diagnosis.phenomena import PHENOMENA
from fabricmon.engine.diagnosis.runs import parts
from fabricmon.engine.diagnosis.slowed import PastFailures, with_slowed
from fabricmon.engine.diagnosis.symptom_index import SymptomIndex
from fabricmon.engine.diagnosis.uplinks import of_switches_above, switch_gain, with_their_switch
from fabricmon.engine.diagnosis.verdict import FaultVerdict
from fabricmon.engine.diagnosis.verdicts import with_dark_hosts, without_falls
from fabricmon.engine.diagnosis.witnesses import DeadHosts
from fabricmon.engine.domains.groups import Groups
from fabricmon.engine.domains.row_domains import RowDomains
from fabricmon.engine.incidents.mode_texts import TEXTS
from fabricmon.engine.incidents.settling import LastReads, Unsettled, unsettled
from fabricmon.engine.incidents.situation import Situation
from fabricmon.engine.symptoms.rule_state import RuleState
from fabricmon.model import ComponentId, Kind, Severity
from fabricmon.topology.groups import DOMAINS, Domains
from tests.engine.test_scenarios_of_gpus_and_pcie import Nodes
from tests.engine.test_situation_over_time import case, step

DOWN = SymptomType.LINK_DOWN


def test_many_pcie_links_that_become_slow_together_are_one_suspicion() -> None:
    nodes = Nodes(hosts=6)
    for host in nodes.hosts[:5]:
        nodes.nic[host, 1] |= {"pcie_width": 4.0, "pcie_path_width": 0.25}
    nodes.run(90)
    (incident,) = nodes.firing()
    assert (incident.kind, incident.members.bad) == ("pcie_degraded", 5)
    assert incident.component.startswith("common(PCIe links slow since")
    assert incident.severity is Severity.WARNING
    assert incident.confidence < 0.9
    assert len({i.id for i in nodes.changed if i.status == "firing"}) == 1


def test_one_more_pcie_link_that_becomes_slow_later_is_part_of_it() -> None:
    nodes = Nodes(hosts=6)
    for host in nodes.hosts[:5]:
        nodes.nic[host, 1] |= {"pcie_width": 4.0, "pcie_path_width": 0.25}
    nodes.run(400)
    nodes.nic[nodes.hosts[5], 1] |= {"pcie_width": 4.0, "pcie_path_width": 0.25}
    nodes.run(90)
    assert [incident.members.bad for incident in nodes.firing()] == [6]


LEAVES, SPINES = 8, 2


def cables(spines: int = SPINES) -> RowDomains:
    """Eight leaves, each with a cable to each of two spines: row = leaf + LEAVES * spine, all of a sweep."""
    n = LEAVES * spines
    ids = {domain: np.full(n, -1, np.int32) for domain in DOMAINS}
    ids["link"], ids["tier"] = np.arange(n, dtype=np.int32), np.zeros(n, np.int32)
    names: dict[str, list[str]] = {domain: [] for domain in DOMAINS}
    names["tier"] = ["0-1"]
    names["link"] = [f"leaf-{at % LEAVES}/{40 + at // LEAVES}, spine-{at // LEAVES}/{at % LEAVES}" for at in range(n)]
    names["leaf"] = [f"su0/rail{at}" for at in range(LEAVES)]
    about = {"leaf": [{"switch": f"leaf-{at}"} for at in range(LEAVES)]}
    return RowDomains(Domains(ids, names, about, np.zeros(n, np.bool_), np.full(n, -1, np.int32)), {}, [])


def broken(rows: Sequence[int], onsets: Sequence[float] | None = None) -> list[FaultVerdict]:
    """A verdict on each of these cables."""
    at = onsets or [100.0] * len(rows)
    return [
        FaultVerdict((MODES[0],), row, 0.99, 0.99, 6.0, {DOWN: np.array([row])}, onset, {}, (), None)
        for row, onset in zip(rows, at, strict=True)
    ]


def test_all_cables_of_a_switch_without_hosts_are_that_switch() -> None:
    domains = cables()
    (verdict,) = of_switches_above(broken(range(LEAVES, 2 * LEAVES)), domains)
    assert (verdict.mode.word, domains.names["switch"][verdict.group]) == ("spine", "spine-1")
    assert verdict.explained[DOWN].tolist() == list(range(LEAVES, 2 * LEAVES))
    assert verdict.confidence > 0.99
    assert verdict.silent == {DOWN: 0}


def test_all_cables_of_a_leaf_to_its_spines_are_that_leaf_before_its_ports_show_anything() -> None:
    domains = cables(4)
    (verdict,) = of_switches_above(broken(range(3, 4 * LEAVES, LEAVES)), domains)
    assert (verdict.mode.word, domains.names["switch"][verdict.group]) == ("leaf", "su0/rail3")
    assert verdict.mode.name == "cables of a leaf down"
    assert "above the leaves" not in TEXTS[verdict.mode.name].title


@pytest.mark.parametrize(("failed", "word"), [((0, 8), "leaf"), ((0,), "host"), ((1, 9), "host")])
def test_a_host_that_has_all_ports_of_a_switch_whose_cables_fail_with_them_is_that_switch(
    failed: tuple[int, ...], word: str
) -> None:
    above, n = cables(), LEAVES * SPINES
    ids = {domain: np.concatenate((of, np.full(2, -1, np.int32))) for domain, of in above.assigned.ids.items()}
    ids["leaf"][n:] = 0
    size = n + 2
    grown = Domains(ids, above.names, above.assigned.about, np.zeros(size, np.bool_), np.full(size, -1, np.int32))
    mode = next(mode for mode in HARD_MODES if mode.name == "all links of a host down")
    host = FaultVerdict((mode,), 3, 0.99, 0.99, 50.0, {DOWN: np.arange(n, size)}, 100.0, {}, (), None)
    found = with_their_switch([host, *broken(failed, [104.0] * len(failed))], RowDomains(grown, {}, []))
    assert (found[0].mode.word, found[0].group) == (word, 0 if word == "leaf" else 3)
    assert found[0].explained[DOWN].tolist() == [n, n + 1]
    assert (len(found) == 1) == (failed[0] == 0), "cables of another switch are their own"


@pytest.mark.parametrize(
    ("rows", "onsets"),
    [
        ([0, 1], None),  # two cables are two cables
        ([0, 9], None),
        ([0, 1, 2, 3], [0.0, 1000.0, 2000.0, 3000.0]),  # not at one time
    ],
)
def test_few_cables_or_those_that_fail_in_turn_are_cables(rows: list[int], onsets: list[float] | None) -> None:
    verdicts = broken(rows, onsets)
    assert of_switches_above(verdicts, cables()) == verdicts


def test_a_cable_elsewhere_stays_its_own() -> None:
    found = of_switches_above(broken([*range(LEAVES), LEAVES]), cables())
    assert sorted((verdict.mode.word, len(verdict.explained[DOWN])) for verdict in found) == [("link", 1), ("spine", 8)]


def test_the_more_cables_of_a_switch_fail_the_more_it_gains() -> None:
    gains = [switch_gain(DOWN, failed, 16) for failed in range(3, 17)]
    assert gains == sorted(gains)


def test_cables_between_switches_fail_with_the_feed_of_these() -> None:
    """Two leaves with two ports each, and the cables of a third to both spines."""
    above = cables()
    n, more = LEAVES * SPINES, 4
    ids = {domain: np.concatenate((of, np.full(more, -1, np.int32))) for domain, of in above.assigned.ids.items()}
    ids["leaf"][n:] = [0, 0, 1, 1]
    size = n + more
    grown = Domains(ids, above.names, above.assigned.about, np.zeros(size, np.bool_), np.full(size, -1, np.int32))
    domains = RowDomains(grown, {}, [])
    feed = next(mode for mode in HARD_MODES if mode.name == "leaves of one feed down")
    verdict = FaultVerdict((feed,), 0, 0.99, 0.99, 50.0, {DOWN: np.arange(n, n + more)}, 100.0, {}, (), None)
    own, other = broken([0, 9], [101.0, 102.0]), broken([2])
    found = with_their_switch([verdict, *own, *other], domains)
    assert [v.mode.word for v in found] == ["feed", "link"]
    assert found[0].effects[DOWN].tolist() == [0, 9]


def dead(hosts: Sequence[int], witnessed: bool = True) -> list[FaultVerdict]:
    """Of 16 hosts in racks of eight and chassis of two some fall silent at once, and peers lose packets to them."""
    n = 16
    own = np.arange(n, dtype=np.int32)
    groups = Groups({"host": own, "rack": own // 8, "chassis": own // 2, "power": np.full(n, -1, np.int32)})
    rows = np.array(hosts)
    every, none = np.ones(n, np.bool_), np.empty(0, np.int64)
    shown = rows if witnessed else none
    return diagnose(
        {
            SymptomType.AGENT_SILENT: Observation(groups, rows, np.full(len(rows), 100.0), every),
            SymptomType.LOSS_TOWARDS_HOST: Observation(groups, shown, np.full(len(shown), 100.0), np.isin(own, rows)),
        },
        1e-4,
    )


@pytest.mark.parametrize(("leaf", "down", "known"), [(0, 1, [0]), (-1, 1, []), (-1, 2, [1])])
def test_a_silent_host_is_down_if_half_of_its_ports_that_a_sweep_may_see_go_dark(
    leaf: int, down: int, known: list[int]
) -> None:
    """Eight hosts with three ports each, two of them of a network of their own; the third is on a leaf or on none."""
    hosts, every = np.arange(8, dtype=np.int32), np.ones(24, np.bool_)
    own, none = np.arange(24, dtype=np.int32), np.full(24, -1, np.int32)
    leaves = np.where(own % 3 == 0, np.int32(leaf), none)
    ports = Groups({"link": own, "nic": own, "host": np.repeat(hosts, 3), "leaf": leaves, "rail": none})
    nodes = Groups({"host": hosts, "power": none[:8]})
    seen = {
        DOWN: Observation(ports, np.arange(down), np.full(down, 105.0), own % 3 == 0),
        SymptomType.AGENT_SILENT: Observation(nodes, np.array([0]), np.array([100.0]), every[:8]),
    }
    found = [verdict for verdict in diagnose(seen, 1e-4) if verdict.mode.name == "host down"]
    assert [len(verdict.explained[DOWN]) - 1 for verdict in found] == known


@pytest.mark.parametrize(
    ("hosts", "name"),
    [
        ([0, 1, 2, 3, 4], "hosts of a rack dead"),
        ([0, 3, 6], "hosts of a rack dead"),
        ([2, 3], "hosts of one chassis dead"),
        ([5], "host dead"),
    ],
)
def test_hosts_that_die_at_one_moment_have_one_cause(hosts: list[int], name: str) -> None:
    (verdict,) = dead(hosts)
    assert (verdict.mode.name, verdict.confidence > 0.9) == (name, True)


def test_hosts_that_die_at_one_moment_and_share_nothing_are_less_sure_than_one() -> None:
    apart = dead([0, 15])
    assert [verdict.mode.name for verdict in apart] == ["host dead"] * 2
    assert all(verdict.confidence < dead([5])[0].confidence for verdict in apart)


def lossy(ratio: float, towards: Sequence[int] = ()) -> list[FaultVerdict]:
    """Six of the 32 ports of each of four leaves lose so many of their packets; packets to some ports are lost."""
    n = 128
    leaf = np.repeat(np.arange(4, dtype=np.int32), 32)
    ids = {
        "link": np.arange(n, dtype=np.int32), "nic": np.arange(n, dtype=np.int32), "leaf": leaf,
        "pod": np.full(n, -1, np.int32), "plane": np.zeros(n, np.int32), "network": np.zeros(n, np.int32),
    }  # fmt: skip
    rows = np.array([32 * group + port for group in range(4) for port in range(0, 30, 5)])
    shares = np.full(n, np.nan)
    shares[rows] = ratio
    lossy = Observation(Groups(ids), rows, np.full(len(rows), 100.0), np.ones(n, np.bool_))
    return gray(lossy, shares, np.isin(np.arange(n), towards))


def of_one_port(n: int, peers: int, towards: Sequence[int] = ()) -> list[FaultVerdict]:
    """Port 0 and some others, each of which loses its part of what port 0 loses."""
    own, one = np.arange(n, dtype=np.int32), np.zeros(n, np.int32)
    ids = {"link": own, "nic": own, "leaf": own // 32, "pod": one - 1, "plane": one, "network": one}
    rows, shares = np.arange(0, 33 * peers + 1, 33), np.full(n, np.nan)
    shares[rows] = 8e-4 / peers
    shares[0] = 8e-4
    lossy = Observation(Groups(ids), rows, np.full(len(rows), 100.0), np.ones(n, np.bool_))
    return gray(lossy, shares, np.isin(np.arange(n), towards))


@pytest.mark.parametrize("peers", [4, 8, 12])
def test_a_port_that_loses_what_its_peers_lose_together_is_the_lossy_one(peers: int) -> None:
    (verdict,) = of_one_port(2048, peers)
    assert (verdict.domain, verdict.group) == ("link", 0)
    assert 0.9 <= verdict.confidence < 1.0


def test_of_two_ports_that_lose_alike_the_lossy_one_is_that_to_which_packets_are_lost_too() -> None:
    (found,) = of_one_port(48, 1, towards=[0, 40])
    (other,) = of_one_port(48, 1, towards=[33, 40])
    assert [(v.domain, v.group) for v in (found, other)] == [("link", 0), ("link", 33)]


def test_of_two_ports_that_lose_alike_neither_is_certain() -> None:
    found = of_one_port(48, 1)
    assert [verdict.domain for verdict in found] == ["link"]
    assert found[0].confidence <= 0.5


def test_an_uplink_of_a_leaf_is_named_as_such_and_not_as_the_leaf() -> None:
    n, shares = 1024, np.full(1024, np.nan)
    own, one = np.arange(n, dtype=np.int32), np.zeros(n, np.int32)
    ids = {"link": own, "nic": own, "leaf": own // 32, "pod": one - 1, "plane": one, "network": one}
    rows = np.array([*range(0, 30, 3), *range(40, 1000, 90)])
    shares[rows] = 4e-4
    lossy = Observation(Groups(ids), rows, np.full(len(rows), 100.0), np.ones(n, np.bool_))
    (verdict,) = gray(lossy, shares, np.zeros(n, np.bool_))
    assert (verdict.mode.word, verdict.group) == ("uplinks", 0)
    assert verdict.confidence >= 0.9


def test_what_may_be_one_port_is_not_surely_above_the_leaves() -> None:
    n, shares = 64, np.full(64, np.nan)
    own, one = np.arange(n, dtype=np.int32), np.zeros(n, np.int32)
    ids = {"link": own, "nic": own, "leaf": own // 16, "pod": one - 1, "plane": one, "network": one}
    shares[[0, 17, 34, 51]] = 9e-4, 3e-4, 3e-4, 3e-4
    lossy = Observation(Groups(ids), np.array([0, 17, 34, 51]), np.full(4, 100.0), np.ones(n, np.bool_))
    assert all(verdict.confidence < 0.9 for verdict in gray(lossy, shares, np.zeros(n, np.bool_)))


def test_ports_that_lose_a_share_of_their_packets_show_a_gray_plane() -> None:
    assert [verdict.domain for verdict in lossy(1e-3)] == ["plane"]


def test_ports_to_which_packets_are_lost_are_effects_of_a_gray_plane_and_no_evidence() -> None:
    (without,), (found,) = lossy(1e-3), lossy(1e-3, towards=[0, 3, 40])
    assert found.effects[SymptomType.PACKET_LOSS].tolist() == [3, 40]  # port 0 loses packets itself
    assert (found.confidence, found.gain) == (without.confidence, without.gain)


@pytest.mark.parametrize(
    ("group", "down", "words"),
    [
        ("leaf rebooting", [1, 7], ["leaf", "link"]),
        ("leaf rebooting", [3], ["leaf"]),
        ("ports of a leaf flapping", [2], ["part"]),
        ("ports of a leaf flapping", [6], ["part", "link"]),
    ],
)
def test_a_port_of_a_flapping_group_that_is_down_is_an_effect_of_it(
    group: str, down: list[int], words: list[str]
) -> None:
    """Ports 0, 1 and 4 of a leaf with the ports 0 to 6 flap, or those of its part."""
    domains = of_hosts(4, 2)
    domains.port.ids["leaf"][:7] = 0
    domains.assigned.socket[:] = np.arange(8)
    mode = next(mode for mode in HARD_MODES if mode.name == group)
    rows = [0, 1, 2, 4] if mode.domain == "leaf" else [0, 1, 4]
    shown = {SymptomType.LINK_FLAPPING: np.array(rows)}
    larger = FaultVerdict((mode,), 0, 0.99, 0.99, 50.0, shown, 90.0, {}, (), None)
    found = without_falls([larger, *broken(down)], domains)
    assert [v.mode.word for v in found] == words
    effects = found[0].effects.get(DOWN, np.empty(0)).tolist()
    assert effects == [row for row in down if row not in [v.explained[DOWN][0] for v in found[1:]]]


def test_ports_that_lose_everything_have_lost_their_peers() -> None:
    assert lossy(1.0) == []


def test_what_groups_leave_when_they_recover_is_no_new_cause() -> None:
    situation = Situation()
    one = case("leaf(a)", "a/1", "a/2", "a/3", "a/4", group=True, linger=120.0)
    other = case("leaf(b)", "b/1", "b/2", "b/3", "b/4", group=True, linger=120.0)
    step(situation, 100.0, one, other)
    rack = case("rack(r)", "a/1", "b/1", "b/2", group=True)
    assert step(situation, 110.0, rack) == []
    assert {incident.component for incident in situation.incidents(110.0)} == {"leaf(a)", "leaf(b)"}


def test_a_cause_of_most_of_what_groups_hold_takes_them_over() -> None:
    situation = Situation()
    one = case("leaf(a)", "a/1", "a/2", "a/3", "a/4", group=True, linger=120.0)
    other = case("leaf(b)", "b/1", "b/2", "b/3", "b/4", group=True, linger=120.0)
    step(situation, 100.0, one, other)
    feed = case("feed(f)", *(f"{leaf}/{port}" for leaf in "ab" for port in range(1, 5)), group=True)
    step(situation, 110.0, feed)
    assert [i.component for i in situation.incidents(110.0) if i.status == "firing"] == ["feed(f)"]


def test_what_normal_work_shows_too_is_never_sure() -> None:
    pausing = next(mode for mode in TOGETHER_MODES if mode.name == "adapters pausing")
    assert pausing.harmless > 0.0
    congested = [mode for mode in MODES if mode.q.keys() == {SymptomType.CONGESTION} and mode.domain != "nic"]
    assert congested
    assert all(mode.harmless == ONE_OF_THREE for mode in congested)


def of_hosts(hosts: int, ports: int) -> RowDomains:
    """Hosts with so many ports each; row = host * ports + port."""
    n = hosts * ports
    ids = {domain: np.full(n, -1, np.int32) for domain in DOMAINS}
    ids["link"], ids["host"] = np.arange(n, dtype=np.int32), np.repeat(np.arange(hosts, dtype=np.int32), ports)
    names: dict[str, list[str]] = {domain: [] for domain in DOMAINS}
    names["host"] = [f"host-{at}" for at in range(hosts)]
    names["link"] = [f"host-{row // ports}/mlx5_{row % ports}/1" for row in range(n)]
    none = Groups({"adapter": np.empty(0, np.int32), "pcie_switch": np.empty(0, np.int32)})
    nodes = [ComponentId(Kind.NODE, name, "") for name in names["host"]]
    inside = {Kind.PCIE: none, Kind.GPU: none}
    return RowDomains(Domains(ids, names, {}, np.zeros(n, np.bool_), np.full(n, -1, np.int32)), {}, nodes, inside)


def test_links_of_hosts_without_power_that_a_sweep_sees_go_down_are_effects_of_it() -> None:
    power = next(mode for mode in MODES if mode.name == "power lost")
    silent = SymptomType.AGENT_SILENT
    dark = FaultVerdict((power,), 0, 0.99, 0.99, 50.0, {silent: np.array([0, 1, 2])}, 100.0, {}, (), None)
    inside, outside, before = broken([1, 7, 4], [120.0, 120.0, 20.0])
    found = with_dark_hosts([dark, inside, outside, before], of_hosts(8, 2))
    assert [verdict.group for verdict in found] == [0, 7, 4]
    assert found[0].effects[DOWN].tolist() == [1]
    cut = replace(dark, modes=(next(mode for mode in MODES if mode.name == "monitoring path cut"),))
    assert len(with_dark_hosts([cut, inside], of_hosts(8, 2))) == 2, "hosts that do not answer may run"
    leaf = next(mode for mode in HARD_MODES if mode.name == "leaf down")
    two = FaultVerdict((leaf,), 0, 0.99, 0.99, 50.0, {DOWN: np.arange(4)}, 120.0, {}, (), None)
    (dead,) = with_dark_hosts([cut, two], of_hosts(8, 2))
    assert (dead.seen, dead.effects[DOWN].tolist()) == (True, [0, 1, 2, 3]), "of two of three silent hosts all are dark"
    three = replace(two, explained={DOWN: np.arange(6)})
    assert len(with_dark_hosts([cut, three], of_hosts(8, 2))) == 2, "it may be the leaf of all of them"


def test_ports_of_a_storage_network_do_not_hide_that_hosts_went_dark() -> None:
    """Of three ports a host one is below a leaf that is swept: all hosts of the leaf and a fourth fell silent."""
    domains, silent = of_hosts(8, 3), SymptomType.AGENT_SILENT
    leaf, cut = (next(m for m in HARD_MODES if m.name == name) for name in ("leaf down", "monitoring path cut"))
    off = FaultVerdict((cut,), 0, 0.99, 0.99, 50.0, {silent: np.arange(4)}, 100.0, {}, (), None)
    down = FaultVerdict((leaf,), 0, 0.99, 0.99, 50.0, {DOWN: np.array([0, 3, 6])}, 120.0, {}, (), None)
    assert len(with_dark_hosts([off, down], domains)) == 2, "of most ports of these hosts nothing is known"
    domains.port.ids["leaf"][[0, 3, 6]] = 0
    (dead,) = with_dark_hosts([off, down], domains)
    assert (dead.seen, dead.effects[DOWN].tolist()) == (True, [0, 3, 6])
    storage = replace(down, explained={DOWN: np.array([2, 5, 8])})
    assert len(with_dark_hosts([off, storage], domains)) == 2, "the ports that are swept are up"


def test_a_host_whose_links_a_sweep_sees_go_down_is_one_of_the_hosts_without_power() -> None:
    power, down = (next(m for m in MODES if m.name == name) for name in ("power lost", "host down"))
    silent = SymptomType.AGENT_SILENT
    dark = FaultVerdict((power,), 0, 0.99, 0.99, 50.0, {silent: np.array([0, 1, 2])}, 100.0, {}, (), None)
    inside, outside = (
        FaultVerdict((down,), host, 0.99, 0.99, 90.0,
                     {DOWN: 2 * host + np.arange(2), silent: np.array([host])}, 100.0, {}, (), None)
        for host in (1, 7)
    )  # fmt: skip
    for order in ([dark, inside, outside], [inside, outside, dark]):
        found = {verdict.group: verdict for verdict in with_dark_hosts(order, of_hosts(8, 2))}
        assert found.keys() == {0, 7}
        assert found[0].explained[silent].tolist() == [0, 1, 2]
        assert {kind: rows.tolist() for kind, rows in found[0].effects.items()} == {DOWN: [2, 3]}
    cut = replace(dark, modes=(next(mode for mode in MODES if mode.name == "monitoring path cut"),))
    assert len(with_dark_hosts([cut, inside], of_hosts(8, 2))) == 2, "hosts that do not answer may run"


@pytest.mark.parametrize(("shared", "dark", "name"), [
    (True, 3, "hosts dead"), (True, 2, "hosts dead"), (True, 1, "hosts silent"), (False, 3, "hosts silent"),
])  # fmt: skip
def test_hosts_that_fell_silent_and_dark_together_are_dead(shared: bool, dark: int, name: str) -> None:
    domains = of_hosts(8, 2)
    domains.port.ids["leaf"][:6] = 0
    domains.port.ids["leaf"][6:] = 0 if shared else 1  # else they are all hosts of their leaf
    silent = next(mode for mode in TOGETHER_MODES if mode.name == "hosts silent")
    shown = {SymptomType.AGENT_SILENT: np.arange(3), DOWN: np.arange(2 * dark)}
    (found,) = with_dark_hosts([FaultVerdict((silent,), 0, 0.9, 0.9, 9.0, shown, 100.0, {}, (), None)], domains)
    assert (found.mode.name, DOWN in found.effects) == (name, name == "hosts dead")


def test_adapters_that_pause_behind_a_slow_pcie_switch_are_one_fault_of_it() -> None:
    adapters = np.arange(8, dtype=np.int32)
    behind = np.array([0, 0, 0, 0, -1, -1, -1, -1], np.int32)
    port = Groups({"adapter": adapters, "nic": adapters, "pcie_switch": behind})
    pcie = Groups({"adapter": adapters, "pcie_switch": behind})
    every, four = np.ones(8, np.bool_), np.arange(4)
    seen = {
        SymptomType.PAUSING: Observation(port, four, np.full(4, 100.0), every),
        SymptomType.PCIE_DEGRADED: Observation(pcie, four, np.full(4, 110.0), every),
    }
    (verdict,) = diagnose(seen, 1e-4)
    assert (verdict.mode.word, verdict.group) == ("pcie_switch", 0)
    assert verdict.confidence > 0.99
    alone = {kind: replace(o, rows=four[:1], onset=o.onset[:1]) for kind, o in seen.items()}
    (verdict,) = diagnose(alone, 1e-4)
    assert verdict.mode.word == "nic"
    pausing = {SymptomType.PAUSING: seen[SymptomType.PAUSING]}
    assert {verdict.mode.word for verdict in diagnose(pausing, 1e-4)} == {"nic"}, "no PCIe link is known to be slow"


def test_a_job_that_lost_a_peer_is_slow_by_that() -> None:
    domains, slow = of_hosts(8, 2), next(mode for mode in MODES if mode.name == "NIC slower than its peers")
    (down,) = broken([1], [100.0])
    late = FaultVerdict((slow,), 4, 0.6, 0.6, 5.0, {SymptomType.STRAGGLER: np.array([4])}, 250.0, {}, (), None)
    jobs = np.array([0] * 8 + [1] * 8, np.int32)
    (found,) = with_slowed([down, late], domains, jobs)
    assert found.effects[SymptomType.STRAGGLER].tolist() == [4]
    other = replace(late, explained={SymptomType.STRAGGLER: np.array([12])})
    assert len(with_slowed([down, other], domains, jobs)) == 2, "another job"
    assert len(with_slowed([down, replace(late, onset=500.0)], domains, jobs)) == 2, "long after"
    assert len(with_slowed([down, replace(late, onset=180.0)], domains, jobs)) == 2, "it was slow before"
    for as_usual, left in ((75.0, 2), (80.0, 1), (150.0, 1), (155.0, 2), (np.nan, 2)):
        began = np.full(16, as_usual)
        assert len(with_slowed([down, late], domains, jobs, None, began)) == left, "it began with the failure, or not"
    began = np.full(16, 120.0)
    began[5] = 240.0
    assert len(with_slowed([down, late], domains, jobs, None, began)) == 2, "the other adapter of its host is spared"
    announced = np.full(16, np.nan)
    announced[1] = 100.0
    assert len(with_slowed([late], domains, jobs, announced, np.full(16, 30.0))) == 1, "it was slow before"
    assert with_slowed([late], domains, jobs, announced) == [], "a port of its job fell under maintenance"
    assert len(with_slowed([other], domains, jobs, announced)) == 1, "of another job"
    assert len(with_slowed([replace(late, onset=500.0)], domains, jobs, announced)) == 1, "long before"
    domains.assigned.ids["rail"][:] = np.arange(16) % 2
    domains.assigned.about["rail"] = [{"rail": "0"}, {"rail": "1"}]
    assert len(with_slowed([down, late], domains, jobs)) == 2, "another rail of the job"
    assert len(with_slowed([late], domains, jobs, announced)) == 1, "another rail of the job"
    assert len(with_slowed([down, replace(late, explained={SymptomType.STRAGGLER: np.array([3])})], domains, jobs)) == 1


def test_a_port_that_began_to_carry_less_with_a_failure_is_slow_by_it_however_late_it_counts() -> None:
    """Its average falls slowly, and the failure may be over by then."""
    domains, slow = of_hosts(8, 2), next(mode for mode in MODES if mode.name == "NIC slower than its peers")
    (down,), one_job = broken([1], [100.0]), np.zeros(16, np.int32)
    late = FaultVerdict((slow,), 4, 0.6, 0.6, 5.0, {SymptomType.STRAGGLER: np.array([4])}, 900.0, {}, (), None)
    none, generation = np.full(16, np.nan), np.zeros(16, np.int64)
    for as_usual, left in ((75.0, 2), (80.0, 1), (150.0, 1), (155.0, 2)):
        began = np.full(16, as_usual)
        assert len(with_slowed([down, late], domains, one_job, None, began)) == left
        past = PastFailures()
        past.update([down], domains, none, generation)
        failed, announced = past.update([late], domains, none, generation)
        assert len(with_slowed([late], domains, one_job, announced, began, failed)) == left - 1, "it is over"
        other, _ = past.update([late], domains, none, generation + (np.arange(16) == 1))
        assert len(with_slowed([late], domains, one_job, announced, began, other)) == 1, "that row is another port"
        past.update([], domains, np.where(np.arange(16) == 1, 100.0, np.nan), generation)
        failed, announced = past.update([late], domains, none, generation)
        assert len(with_slowed([late], domains, one_job, announced, began)) == left - 1, "maintenance that is over"
    own = PastFailures()
    failed, announced = own.update(broken([4], [100.0]), domains, none, generation)
    assert len(with_slowed([late], domains, one_job, announced, np.full(16, 110.0), failed)) == 1, "its own link fell"


@pytest.mark.parametrize(("others", "left"), [(0, 2), (1, 2), (2, 1), (4, 1)])
def test_the_other_adapters_of_a_host_spare_none_where_those_of_other_hosts_are_spared(others: int, left: int) -> None:
    """Each adapter talks to hosts of its own: of each host one port has less to do."""
    domains, slow = of_hosts(8, 2), next(mode for mode in MODES if mode.name == "NIC slower than its peers")
    (down,), one_job = broken([1], [100.0]), np.zeros(16, np.int32)
    late = FaultVerdict((slow,), 4, 0.6, 0.6, 5.0, {SymptomType.STRAGGLER: np.array([4])}, 250.0, {}, (), None)
    as_usual = np.full(16, 240.0)
    as_usual[[1, 4, *(6 + 2 * at for at in range(others))]] = 120.0
    assert len(with_slowed([down, late], domains, one_job, None, as_usual)) == left
    jobs = np.where(np.arange(16) < 6, -1, one_job).astype(np.int32)
    assert len(with_slowed([down, late], domains, jobs, None, as_usual)) == 2, "these are of another job"
    as_usual[[7 + 2 * at for at in range(others)]] = 120.0
    assert len(with_slowed([down, late], domains, one_job, None, as_usual)) == 2, "the whole hosts have less to do"


def test_beginnings_of_groups_are_rare_though_single_hosts_restart() -> None:
    domains = of_hosts(8, 2)
    causes, rack = CommonCauses(), next(mode for mode in HARD_MODES if mode.name == "hosts of a rack silent")
    dead = next(mode for mode in HARD_MODES if mode.name == "host dead")
    silent = SymptomType.AGENT_SILENT
    for at in range(6):  # agents that restart
        alone = FaultVerdict((dead,), 7, 0.99, 0.99, 9.0, {silent: np.array([7])}, 100.0 * at, {}, (), None)
        causes.joined([alone], {}, domains, lambda _kind, _rows: True, 100.0 * at)
    halves = [
        FaultVerdict((rack,), at, 0.99, 0.99, 50.0, {silent: 4 * at + np.arange(2)}, 900.0, {silent: 2}, (), None)
        for at in (0, 1)
    ]
    found = causes.joined(halves, {}, domains, lambda _kind, _rows: True, 903.0)
    assert [verdict.mode.word for verdict in found] == ["common"]


def test_a_group_of_silent_hosts_waits_until_no_further_one_falls_silent() -> None:
    """The hosts of a power domain are read at different moments, first those of one rack."""
    domains, causes, silent = of_hosts(8, 2), CommonCauses(), SymptomType.AGENT_SILENT
    rack = next(mode for mode in HARD_MODES if mode.name == "hosts of a rack silent")

    def waits(hosts: int, now: float) -> list[bool]:
        mine = FaultVerdict((rack,), 0, 0.99, 0.99, 50.0, {silent: np.arange(hosts)}, 100.0, {silent: 0}, (), None)
        return [v.gathering for v in causes.joined([mine], {}, domains, lambda _kind, _rows: True, now)]

    assert [waits(hosts, now) for hosts, now in ((3, 120.0), (3, 124.0), (4, 126.0), (4, 132.0))] == [
        [True], [True], [True], [False],
    ]  # fmt: skip


@pytest.mark.parametrize("further", [5, 33])
def test_two_hosts_next_to_each_other_fall_silent_together_whoever_else_does(further: int) -> None:
    domains, own, silent = of_hosts(64, 1), np.arange(64, dtype=np.int32), SymptomType.AGENT_SILENT
    rows = np.array(sorted([30, 31, further]))
    onset, causes = np.where(rows == further, 96.0, 100.0), CommonCauses()
    seen = {silent: Observation(Groups({"host": own}), rows, onset, np.ones(64, np.bool_))}
    for now in (120.0, 121.0, 130.0):
        (found,) = causes.joined([], seen, domains, lambda _kind, _rows: True, now)
        assert (found.mode.word, found.explained[silent].tolist()) == ("common", [30, 31])


@pytest.mark.parametrize("known_cause", [True, False])
@pytest.mark.parametrize(("others", "together"), [(8, True), (9, False)])
def test_hosts_that_were_silent_before_do_not_count_towards_a_server_that_is_cut_off(
    known_cause: bool, others: int, together: bool
) -> None:
    """Of 32 hosts a half is silent since long, by a known cause or not, and now up to a half of the others, or more."""
    domains, own, silent = of_hosts(32, 2), np.arange(32, dtype=np.int32), SymptomType.AGENT_SILENT
    rack = next(mode for mode in HARD_MODES if mode.name == "hosts of a rack silent")
    verdict = FaultVerdict((rack,), 0, 0.99, 0.99, 50.0, {silent: own[:16]}, 100.0, {silent: 0}, (), None)
    rows = own[: 16 + others]
    onset = np.where(rows < 16, 100.0, 5000.0)
    seen = {silent: Observation(Groups({"host": own}), rows, onset, np.ones(32, np.bool_))}
    found = CommonCauses().joined([verdict] if known_cause else [], seen, domains, lambda _kind, _rows: True, 5003.0)
    common = [v.explained[silent].tolist() for v in found if v.mode.word == "common"]
    assert common == ([rows[16:].tolist()] if together else [])


@pytest.mark.parametrize("known_cause", [True, False])
def test_hosts_of_a_known_cause_do_not_count_towards_a_server_that_is_cut_off(known_cause: bool) -> None:
    """At one moment half of 32 hosts fell silent, by one cause where it is known, and eight of the others."""
    domains, own, silent = of_hosts(32, 2), np.arange(32, dtype=np.int32), SymptomType.AGENT_SILENT
    rack = next(mode for mode in HARD_MODES if mode.name == "hosts of a rack silent")
    verdict = FaultVerdict((rack,), 0, 0.99, 0.99, 50.0, {silent: own[:16]}, 4991.0, {silent: 0}, (), None)
    seen = Observation(Groups({"host": own}), own[:24], np.where(own[:24] < 16, 4991.0, 5000.0), np.ones(32, np.bool_))
    found = beginnings(PHENOMENA[0], [verdict] if known_cause else [], {silent: seen}, domains, lambda _k, _r: True)
    single = sorted(row for unit in found if unit.verdict is None for row in unit.rows)
    assert single == (list(range(16, 24)) if known_cause else [])


def of_group(name: str, group: int, rows: Sequence[int], onset: float = 100.0, well: int = 0) -> FaultVerdict:
    mode = next(mode for mode in HARD_MODES if mode.name == name)
    return FaultVerdict((mode,), group, 0.99, 0.99, 50.0, {DOWN: np.array(rows)}, onset, {DOWN: well}, (), None)


def flaps(group: int, rows: Sequence[int]) -> FaultVerdict:
    """Some ports of a leaf that flap."""
    verdict = of_group("ports of a leaf flapping", group, rows)
    return replace(verdict, explained={SymptomType.LINK_FLAPPING: np.array(rows)})


TWO_LEAVES = [of_group("leaf down", 0, range(4)), of_group("leaf down", 1, range(4, 8), 104.0)]


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([of_group("module down", 0, range(4)), of_group("module down", 1, range(8, 12), 101.0)], ["module", "module"]),
        ([of_group("leaf down", 0, range(2)), of_group("leaf down", 1, range(4, 14))], ["leaf", "leaf"]),
        ([of_group("leaf down", at, at * np.arange(1, 4)) for at in (1, 3, 5)], ["common"]),
        ([of_group("leaf down", 0, range(4)), of_group("module down", 1, [8, 9], well=4)], ["leaf", "module"]),
        ([of_group("module down", 0, range(4), well=4), of_group("module down", 1, [8, 9], well=4)], ["common"]),
        ([of_group("ports of a leaf down", 0, range(4)), of_group("ports of a leaf down", 1, [8, 9, 10])], ["common"]),
        ([flaps(0, range(4)), flaps(1, [8, 9, 10])], ["part", "part"]),
        ([of_group("leaf down", 0, range(4)), of_group("ports of a leaf down", 1, [8, 9, 10])], ["leaf", "part"]),
        ([of_group("ports of a leaf down", 0, range(3)), of_group("cable or optic down", 9, [9])], ["part", "link"]),
        ([*TWO_LEAVES, of_group("cable or optic down", 9, [9])], ["leaf", "leaf", "link"]),
        ([*TWO_LEAVES, *(of_group("cable or optic down", at, [at]) for at in (9, 14))], ["common"]),
        ([of_group("rail down", 0, range(8)), of_group("leaf down", 2, range(8, 12), 101.0)], ["common"]),
        ([of_group("rail down", 0, range(4)), of_group("leaf down", 2, range(8, 12), 101.0)], ["rail", "leaf"]),
        ([of_group("rail down", 0, range(16))], ["rail"]),
    ],
)
def test_two_parts_of_groups_or_three_groups_at_one_moment_have_a_common_cause_two_whole_ones_have_not(
    groups: list[FaultVerdict], words: list[str]
) -> None:
    domains = of_hosts(8, 2)
    domains.port.ids["leaf"][:] = np.arange(16) // 4
    found = CommonCauses().joined(groups, {}, domains, lambda _kind, _rows: True, 103.0)
    assert [verdict.mode.word for verdict in found] == words


@pytest.mark.parametrize(("leaf_of_module", "causes"), [(-1, ["feed"]), (9, ["feed", "together_down"])])
def test_a_module_that_fails_with_a_feed_is_of_it_where_no_leaf_of_its_ports_is_known(
    leaf_of_module: int, causes: list[str]
) -> None:
    domains = of_hosts(16, 2)
    domains.port.ids["leaf"][:24] = np.arange(24) // 8
    domains.port.ids["leaf"][24:26] = leaf_of_module
    feed, module = of_group("leaves of one feed down", 0, range(24)), of_group("module of a host down", 0, [24, 25])
    verdicts = [feed, module, *broken([27, 28], [100.0, 100.0])]
    found = CommonCauses().joined(verdicts, {}, domains, lambda _kind, _rows: True, 103.0)
    assert [verdict.mode.domain for verdict in found] == causes
    own = [] if len(causes) > 1 else list(range(24))
    assert found[-1].explained[DOWN].tolist() == [*own, 24, 25, 27, 28], "of the feed they are members"


def test_a_group_joins_a_cause_that_is_larger_as_its_members_have_grown_to_groups() -> None:
    domains, causes = of_hosts(32, 1), CommonCauses()
    domains.port.ids["leaf"][:] = np.arange(32) // 8
    seen = causes.joined(broken([0, 8, 16, 17]), {}, domains, lambda _kind, _rows: True, 103.0)
    assert [len(verdict.explained[DOWN]) for verdict in seen] == [4]
    rows = ([0, *range(2, 8)], range(8, 15), [16, 17, 18, 20], range(24, 31))
    parts = [of_group("part of a leaf down", at, mine, 100.0 + at // 3, well=4) for at, mine in enumerate(rows)]
    found = causes.joined(parts, {}, domains, lambda _kind, _rows: True, 105.0)
    assert [verdict.mode.word for verdict in found] == ["common"], "the last of them has more than it had before"
    assert len(found[0].explained[DOWN]) == 25


@pytest.mark.parametrize(("host", "words"), [(3, ["module"]), (-1, ["module", "link"])])
def test_a_cable_between_switches_is_no_port_of_a_module(host: int, words: list[str]) -> None:
    domains = of_hosts(8, 1)
    domains.port.ids["leaf"][:2] = 0
    domains.hosts[3] = host
    module, link = of_group("module down", 0, [0, 1]), of_group("cable or optic down", 3, [3])
    found = CommonCauses().joined([module, link], {}, domains, lambda _kind, _rows: True, 103.0)
    assert [verdict.mode.word for verdict in found] == words


@pytest.mark.parametrize(("unknown", "words"), [(4, ["part"]), (13, ["common"])])
def test_a_line_card_with_ports_that_the_map_does_not_know_has_them_where_they_are_fewer(
    unknown: int, words: list[str]
) -> None:
    domains = of_hosts(32, 1)
    domains.port.ids["leaf"][:12], domains.port.ids["leaf"][12:] = 0, -1
    card = of_group("ports of a leaf down", 0, range(12))
    rest = broken(range(12, 12 + unknown), [104.0] * unknown)
    causes = CommonCauses()
    found = causes.joined([card, *rest], {}, domains, lambda _kind, _rows: True, 105.0)
    assert [verdict.mode.word for verdict in found] == words
    assert found[0].explained[DOWN].tolist() == list(range(12 + unknown))
    domains.port.ids["leaf"][12:] = 1
    elsewhere = CommonCauses().joined([card, *rest], {}, domains, lambda _kind, _rows: True, 105.0)
    assert [verdict.mode.word for verdict in elsewhere] == ["common"], "another leaf's"


@pytest.mark.parametrize("late", [0, 1])
def test_ports_that_no_map_shows_are_of_the_leaf_and_not_of_what_began_with_a_module_elsewhere(late: int) -> None:
    domains, causes = of_hosts(32, 1), CommonCauses()
    domains.port.ids["leaf"][:12], domains.port.ids["leaf"][12:15], domains.port.ids["leaf"][15:] = 0, -1, 1
    module = of_group("module down", 1, [15, 16])
    leaf, unknown = of_group("ports of a leaf down", 0, range(12)), broken(range(12, 15), [104.0] * 3)
    if late:
        causes.joined([leaf, *unknown], {}, domains, lambda _kind, _rows: True, 105.0)
    found = causes.joined([leaf, module, *unknown], {}, domains, lambda _kind, _rows: True, 105.0)
    explained = {verdict.mode.word: verdict.explained[DOWN].tolist() for verdict in found}
    assert explained == {"part": list(range(15)), "module": [15, 16]}


@pytest.mark.parametrize(
    ("mode", "elsewhere", "words"),
    [("leaf down", 1, ["leaf", "link"]), ("ports of a leaf down", 1, ["common"]), ("leaf down", 11, ["common"])],
)
def test_a_leaf_that_fails_as_a_whole_is_named_beside_what_is_no_part_of_it(
    mode: str, elsewhere: int, words: list[str]
) -> None:
    """Twelve ports of it, three that no map shows, and links of another leaf with another name: of most that fell."""
    domains = of_hosts(16, 2)
    leaf, adapters = domains.port.ids["leaf"], np.arange(16) * 2
    leaf[:], leaf[adapters[:12]], leaf[adapters[12:]] = 1, 0, -1
    verdicts = [
        of_group(mode, 0, adapters[:12], well=4 if mode == "ports of a leaf down" else 0),
        *broken(adapters[12:15].tolist(), [104.0] * 3),
        *broken([2 * at + 1 for at in range(elsewhere)], [104.0] * elsewhere),
    ]
    found = CommonCauses().joined(verdicts, {}, domains, lambda _kind, _rows: True, 105.0)
    assert sorted(verdict.mode.word for verdict in found) == words
    if words == ["leaf", "link"]:
        explained = next(verdict.explained[DOWN] for verdict in found if verdict.mode.word == "leaf")
        assert explained.tolist() == adapters[:15].tolist()


@pytest.mark.parametrize(("tier", "words"), [(-1, ["part"]), (0, ["part", "link"])])
def test_a_cable_between_switches_that_fails_with_a_line_card_of_another_is_no_port_of_it(
    tier: int, words: list[str]
) -> None:
    domains = of_hosts(32, 1)
    domains.port.ids["leaf"][:12], domains.port.ids["leaf"][12:] = 0, -1
    domains.assigned.ids["tier"][12] = tier
    verdicts = [of_group("ports of a leaf down", 0, range(12)), *broken([12], [104.0])]
    found = CommonCauses().joined(verdicts, {}, domains, lambda _kind, _rows: True, 105.0)
    assert [verdict.mode.word for verdict in found] == words


@pytest.mark.parametrize("batch", ["board", "firmware"])
def test_a_link_that_fails_with_a_batch_is_of_it_if_its_adapter_says_so(batch: str) -> None:
    domains = of_hosts(32, 1)
    domains.port.ids["leaf"][:], domains.port.ids[batch] = -1, np.full(32, -1, np.int32)
    domains.port.ids[batch][:13] = 0
    group = of_group(f"{batch} with bit errors", 0, range(12))
    group = replace(group, explained={SymptomType.LINK_ERRORS: np.arange(12)}, silent={SymptomType.LINK_ERRORS: 1})
    for row, words in ((12, [batch]), (13, [batch, "link"])):
        link = replace(broken([row], [104.0])[0], explained={SymptomType.LINK_ERRORS: np.array([row])})
        found = CommonCauses().joined([group, link], {}, domains, lambda _kind, _rows: True, 105.0)
        assert [verdict.mode.word for verdict in found] == words


def test_what_shows_something_else_at_the_moment_of_a_common_cause_is_no_part_of_it() -> None:
    causes, domains = CommonCauses(), of_hosts(8, 2)
    leaves = [of_group("leaf down", at, [2 * at, 2 * at + 1]) for at in range(3)]
    lost = FaultVerdict(
        (next(mode for mode in MODES if mode.name == "NIC bad"),), 9, 0.99, 0.99, 6.0,
        {SymptomType.NIC_FAULT: np.array([9])}, 102.0, {}, (), None,
    )  # fmt: skip
    link = broken([11], [102.0])
    causes.joined(leaves, {}, domains, lambda _kind, _rows: True, 103.0)
    found = causes.joined([*leaves, lost, *link], {}, domains, lambda _kind, _rows: True, 104.0)
    assert sorted((verdict.mode.word, verdict.explained.keys() == {DOWN}) for verdict in found) == [
        ("common", True), ("nic", False),
    ]  # fmt: skip


def test_a_module_is_no_second_fault_because_one_of_its_ports_is_filed_below_another_leaf() -> None:
    """Of 16 ports of a leaf that fail, two share a module with a third one, which is filed elsewhere."""
    n, own = 64, np.arange(64, dtype=np.int32)
    leaf, module = own // 16, np.full(n, -1, np.int32)
    module[[0, 1, 40]] = 0
    ids = {"link": own, "nic": own, "host": own, "leaf": leaf, "module": module, "rail": np.full(n, -1, np.int32)}
    rows = np.array([*range(16), 40])
    down = Observation(Groups(ids), rows, np.full(17, 100.0), np.ones(n, np.bool_))
    found = diagnose({DOWN: down}, 0.0)
    assert [(verdict.mode.word, len(verdict.explained[DOWN])) for verdict in found] == [("leaf", 16), ("link", 1)]


def test_racks_that_share_some_ports_of_whole_leaves_are_not_named_instead_of_the_leaves() -> None:
    """Five leaves of eight ports fail; four hosts of each are in a rack, four in another, and have ports that work."""
    hosts, rails = 16, 8
    row = np.arange(hosts * rails)
    host, rail = (row // rails).astype(np.int32), (row % rails).astype(np.int32)
    unit = host // 8
    ids = {
        "link": row.astype(np.int32), "nic": row.astype(np.int32), "host": host,
        "leaf": (unit * rails + rail).astype(np.int32), "rail": np.full(len(row), -1, np.int32),
        "rack": ((host + 4) // 8).astype(np.int32),
    }  # fmt: skip
    rows = row[(unit == 0) & (rail < 5)]
    down = Observation(Groups(ids), rows, np.full(len(rows), 100.0), np.ones(len(row), np.bool_))
    assert [verdict.mode.word for verdict in diagnose({DOWN: down}, 0.0)] == ["leaf"] * 5


def test_a_dead_host_stays_dead_when_its_peers_give_it_up_unless_flows_reach_it() -> None:
    silent, dead = SymptomType.AGENT_SILENT, DeadHosts()
    groups = Groups({"host": np.arange(4, dtype=np.int32)})
    mute = {silent: Observation(groups, np.array([1, 2]), np.array([90.0, 95.0]), np.ones(4, np.bool_))}

    def seen(rows: list[int], known: list[int]) -> list[int] | None:
        mask = np.isin(np.arange(4), [*rows, *known])
        witnessed = Observation(groups, np.array(rows, np.int64), np.full(len(rows), 90.0), mask)
        found = dead.with_earlier(witnessed, mute, np.empty(0))
        return None if found is None else found.rows.tolist()

    assert seen([1], []) == [1]
    assert seen([], []) == [1]
    assert seen([2], []) == [1, 2]
    assert seen([], [1]) == [2], "flows to it lose nothing"
    mute = {silent: Observation(groups, np.array([1, 2]), np.array([300.0, 300.0]), np.ones(4, np.bool_))}
    assert seen([], []) == [], "another silence"


@pytest.mark.parametrize(
    ("kind", "words"),
    [(SymptomType.LINK_ERRORS, {"rack"}), (DOWN, {"link"}), (SymptomType.LINK_FLAPPING, {"link"})],
)
def test_what_is_cooled_together_errs_together_and_does_not_fall(kind: SymptomType, words: set[str]) -> None:
    """Of two feeds and two racks of 16 ports each, 12 ports of one rack show something: half of them on each feed."""
    row = np.arange(32)
    own = row.astype(np.int32)
    groups = Groups({
        "link": own, "nic": own, "host": own, "leaf": own % 16, "feed": own % 2, "rack": own // 16, "row": own * 0,
    })  # fmt: skip
    shown = Observation(groups, row[:12], 300.0 * row[:12], np.ones(len(row), np.bool_))
    assert {verdict.mode.word for verdict in diagnose({kind: shown}, 0.0)} == words


@pytest.mark.parametrize(("also", "words"), [([], ["leaf"]), ([40], ["feed"])])
def test_a_feed_flaps_where_each_of_its_leaves_does(also: list[int], words: list[str]) -> None:
    """The ports of one leaf flap; those of the other fell at the same moments, none of them often enough."""
    row = np.arange(64)
    own = row.astype(np.int32)
    groups = Groups({"link": own, "nic": own, "host": own, "leaf": own // 32, "feed": own * 0})
    every, flapping = np.ones(len(row), np.bool_), np.array([*range(32), *also])
    shown = {
        kind: Observation(groups, rows, np.full(len(rows), 100.0), every)
        for kind, rows in (
            (SymptomType.LINK_FLAPPING, flapping), (SymptomType.LINK_FELL, np.setdiff1d(row, flapping)),
        )
    }  # fmt: skip
    assert [verdict.mode.word for verdict in diagnose(shown, 0.0)] == words


@pytest.mark.parametrize(("spared", "words"), [(1, ["feed"]), (2, ["leaf"] * 4)])
def test_a_leaf_of_four_ports_fails_with_its_feed_although_one_is_filed_wrongly(spared: int, words: list[str]) -> None:
    """Four leaves of four ports, of each of which so many are up."""
    row = np.arange(32)
    own = row.astype(np.int32)
    groups = Groups({"link": own, "nic": own, "host": own, "leaf": own // 4, "feed": own // 16})
    rows = row[(row < 16) & (row % 4 >= spared)]
    down = Observation(groups, rows, np.full(len(rows), 100.0), np.ones(len(row), np.bool_))
    assert [verdict.mode.word for verdict in diagnose({DOWN: down}, 0.0)] == words


@pytest.mark.parametrize(("ports", "words"), [(2, ["link", "link"]), (3, ["host"]), (4, ["host"])])
def test_some_links_of_a_host_that_fail_together_are_of_the_host(ports: int, words: list[str]) -> None:
    """Of eight, with no map; two may be chance."""
    row = np.arange(64)
    own = row.astype(np.int32)
    groups = Groups({"link": own, "nic": own, "host": own // 8, "leaf": own * 0 - 1})
    for kind in (DOWN, SymptomType.LINK_FLAPPING):
        shown = Observation(groups, row[:ports], np.full(ports, 100.0), np.ones(len(row), np.bool_))
        assert [verdict.mode.word for verdict in diagnose({kind: shown}, 0.0)] == words


def test_the_links_of_a_host_that_its_leaf_explains_are_no_evidence_of_the_host() -> None:
    """All of a leaf of 24 ports but one are down, and all of a host: seven of its links are on that leaf, and the
    eighth is filed on another one."""
    row = np.arange(48)
    own = row.astype(np.int32)
    host, leaf = own // 8, own // 24
    leaf[[7, 30]] = 1, 0
    groups = Groups({"link": own, "nic": own, "host": host, "leaf": leaf})
    down = Observation(groups, row[:24], np.full(24, 100.0), np.ones(len(row), np.bool_))
    found = diagnose({DOWN: down}, 0.0)
    assert [(verdict.mode.word, len(verdict.explained[DOWN])) for verdict in found] == [("leaf", 23), ("link", 1)]


def test_a_large_leaf_that_is_all_of_a_feed_is_one_cause() -> None:
    row = np.arange(800)
    own = row.astype(np.int32)
    groups = Groups({"link": own, "nic": own, "host": own, "leaf": own // 400, "feed": own // 400})
    down = Observation(groups, row[:400], np.full(400, 100.0), np.ones(len(row), np.bool_))
    assert [verdict.mode.word for verdict in diagnose({DOWN: down}, 0.0)] == ["leaf"]


@pytest.mark.parametrize(("ports", "word"), [((9, 10, 14), "part"), ((9, 10, 25), "module")])
def test_a_module_and_a_port_near_it_are_a_part_of_their_leaf(ports: tuple[int, ...], word: str) -> None:
    """Of 26 ports three get bit errors in the same seconds, two of them of one module."""
    row = np.arange(26)
    own, errs, every = row.astype(np.int32), np.isin(row + 1, ports), np.ones(len(row), np.bool_)
    groups, choice = {"link": own, "nic": own, "host": own, "leaf": own * 0, "module": own // 2}, np.zeros(1)
    for part in parts(groups["leaf"], own + 1, errs, every).values():
        groups["run_errors"] = np.where(np.isin(row, part.rows), 0, -1).astype(np.int32)
        choice[:] = part.choice
    rows = np.flatnonzero(errs)
    shown = Observation(Groups(groups, choice={"run_errors": choice}), rows, 100.0 + 3 * np.arange(3), every)
    assert diagnose({SymptomType.LINK_ERRORS: shown}, 0.0)[0].mode.word == word


def test_two_ports_that_are_a_module_and_all_of_a_leaf_are_first_the_module() -> None:
    row = np.arange(8)
    own = row.astype(np.int32)
    groups = Groups({"link": own, "nic": own, "host": own, "leaf": own // 2, "module": own // 2})
    down = Observation(groups, row[2:4], np.full(2, 100.0), np.ones(len(row), np.bool_))
    (verdict,) = diagnose({DOWN: down}, 0.0)
    assert (verdict.mode.word, [rival.mode.word for rival in verdict.rivals]) == ("module", ["leaf"])


@pytest.mark.parametrize("gathering", [False, True])
def test_bit_errors_wait_a_minute_for_others_of_one_cause(gathering: bool) -> None:
    mode = next(mode for mode in HARD_MODES if mode.name == "cable or optic with bit errors")
    rows = {SymptomType.LINK_ERRORS: np.array([1])}
    verdict = FaultVerdict((mode,), 1, 0.99, 0.99, 6.0, rows, 100.0, {}, (), None, gathering=gathering)
    index = SymptomIndex(of_hosts(8, 2), {}, {})
    early = [
        unsettled(verdict, index, LastReads(now, np.empty(0), np.empty(0), np.empty(0), lambda _node: 0.0)).seconds
        for now in (101.0, 159.0, 161.0)
    ]
    assert early == [60.0, 60.0, 12.0 if gathering else 0.0]


@pytest.mark.parametrize(("silent", "seconds"), [([], 40.0), ([3], 0.0), ([2], 40.0)])
def test_a_host_whose_links_go_down_waits_for_its_agent_unless_that_is_silent(
    silent: list[int], seconds: float
) -> None:
    """It fell silent hours before, so its silence is no part of what is explained."""
    mode = next(mode for mode in HARD_MODES if mode.name == "all links of a host down")
    verdict = FaultVerdict((mode,), 3, 0.99, 0.99, 9.0, {DOWN: np.array([6, 7])}, 100.0, {}, (), None)
    agents = cast(RuleState, SimpleNamespace(open=dict.fromkeys(silent), rule=SimpleNamespace(table=Kind.NODE)))
    index = SymptomIndex(of_hosts(8, 2), {SymptomType.AGENT_SILENT: [agents]}, {})
    read = LastReads(103.0, np.empty(0), np.empty(0), np.empty(0), lambda _node: 0.0)
    assert unsettled(verdict, index, read).seconds == seconds


@pytest.mark.parametrize("domain", ["module", "run_down"])
def test_ports_of_one_part_wait_until_the_other_ports_of_their_leaf_were_read(domain: str) -> None:
    ids = {name: np.full(4, -1, np.int32) for name in DOMAINS}
    ids["link"], ids["host"] = np.arange(4, dtype=np.int32), np.arange(4, dtype=np.int32)
    ids["leaf"] = np.zeros(4, np.int32)
    ids[domain] = np.array([0, 0, 1, 1], np.int32)
    names = {name: [str(at) for at in range(int(of.max()) + 1)] for name, of in ids.items()}
    index = SymptomIndex(RowDomains(Domains(ids, names, {}, np.zeros(4, np.bool_), ids["rail"]), {}, []), {}, {})
    mode = next(mode for mode in PARTIAL_MODES if mode.domain == domain and DOWN in mode.q)
    verdict = FaultVerdict((mode,), 0, 0.99, 0.99, 6.0, {DOWN: np.array([0, 1])}, 100.0, {}, (), None)

    def early_of(other: float) -> Unsettled:
        links = np.array([101.0, 101.0, other, other])
        return unsettled(verdict, index, LastReads(103.0, links, np.empty(0), np.empty(0), lambda _node: 0.0))

    early = [early_of(other) for other in (95.0, 101.0)]
    assert [one.seconds for one in early if one.reason] == [12.0]
    assert "2 neighbours not read" in early[0].reason


def test_cables_that_were_not_observed_show_nothing() -> None:
    known = np.zeros(4 * LEAVES, np.bool_)
    known[range(LEAVES, 2 * LEAVES - 3)] = True
    verdicts = broken(range(LEAVES, 2 * LEAVES - 4))
    (verdict,) = of_switches_above(verdicts, cables(), {DOWN: known})
    assert verdict.silent == {DOWN: 1}, "one of four others was read"
    (verdict,) = of_switches_above(verdicts, cables())
    assert verdict.silent == {DOWN: 4}
