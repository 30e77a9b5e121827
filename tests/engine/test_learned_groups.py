"""Fault domains learned from what fails together, where no topology tells."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fabricmon.engine.domains.learned_groups import MOST, LearnedGroups
from fabricmon.model import ComponentId, Kind


def port(host: int, nic: int = 0) -> ComponentId:
    return ComponentId(Kind.PORT, f"host-{host}", f"mlx5_{nic}/1")


def tell(learned: LearnedGroups, hosts: list[int], at: float) -> None:
    learned.add_falls([(port(host), at + n % 5) for n, host in enumerate(hosts)])
    learned.group_falls(at + 60.0)


def used(learned: LearnedGroups) -> list[str]:
    return learned.ids(lambda _: None, 0)[1]


def test_a_group_is_used_from_its_second_sighting_on_and_keeps_its_name() -> None:
    learned = LearnedGroups()
    tell(learned, [1, 2, 3, 4, 5], 1000.0)
    assert used(learned) == []
    tell(learned, [1, 2, 3, 4], 5000.0)
    assert used(learned) == ["learned group 1"]
    tell(learned, [20, 21, 22, 23], 9000.0)
    tell(learned, [20, 21, 22, 23], 12000.0)
    assert used(learned) == ["learned group 1", "learned group 2"]
    rows = {port(host): host for host in range(30)}
    ids, _ = learned.ids(rows.get, 30)
    assert [n for n in range(30) if ids[n] == 0] == [1, 2, 3, 4, 5]


def test_few_ports_one_host_and_ports_that_fall_apart_in_time_are_no_group() -> None:
    for fallen in (
        [(port(host), 0.0) for host in range(3)],
        [(port(1, nic), 0.0) for nic in range(8)],
        [(port(host), 15.0 * host) for host in range(8)],
    ):
        learned = LearnedGroups()
        for start in (0.0, 5000.0):
            learned.add_falls([(component, start + at) for component, at in fallen])
            learned.group_falls(start + 400.0)
        assert learned.groups == []


def test_one_restart_that_is_seen_twice_is_one_sighting() -> None:
    learned = LearnedGroups()
    tell(learned, [1, 2, 3, 4], 1000.0)
    tell(learned, [1, 2, 3, 4], 1150.0)
    assert used(learned) == []


@given(st.lists(st.sets(st.integers(0, 40), min_size=4, max_size=12), max_size=30))
def test_memory_is_bounded_and_groups_in_use_were_seen_twice(sightings: list[set[int]]) -> None:
    learned = LearnedGroups()
    for n, hosts in enumerate(sightings):
        tell(learned, sorted(hosts), 1000.0 * (n + 1))
    assert len(learned.groups) <= MOST
    assert len({group.number for group in learned.groups}) == len(learned.groups)
    assert all(group.seen >= 2 for group in learned.groups if f"learned group {group.number}" in used(learned))


def test_the_second_fall_of_an_unknown_switch_is_one_incident_and_so_is_the_third(world: Any) -> None:
    w = world(hosts=12, rails=4, topology=False)
    behind = {(host, n % 4) for n, host in enumerate(w.hosts[:8])}
    found = []
    for _ in range(3):
        w.break_links(behind)
        w.run(60, step=1.0)
        found.append([(i.kind, i.component) for i in w.firing()])
        w.mend(behind)
        w.run(3000, step=60.0)
    assert [len(told) for told in found] == [1, 1, 1]
    assert found[0][0][1].startswith("common(links down"), "what they share is not known yet"
    assert found[2] == [("fault_domain", "group(learned group 1)")]
