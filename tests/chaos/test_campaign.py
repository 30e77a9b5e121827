"""A short campaign of faults of all kinds (`python -m tests.chaos` has a long one), and the books it relies on."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.campaign import DAMAGED, IN_A_ROUND, Campaign, plan
from tests.chaos.faults import KINDS
from tests.chaos.ledger import Ledger, Sums

FAULTS = int(os.environ.get("FABRICMON_CHAOS_RUNS", "4")) * 10


@pytest.mark.chaos
@pytest.mark.timeout(60 + 30 * FAULTS)
def test_faults_of_all_kinds_lose_nothing_and_change_no_key(tmp_path: Path, require: Callable[..., str]) -> None:
    require("fuse", "disks that fail")
    require("faketime", "clocks that jump")
    campaign = Campaign(tmp_path, seed=3)
    stage = campaign.run(FAULTS)
    print(campaign.sums.table())
    assert not stage.ended, "\n".join(stage.ended)
    assert not campaign.lost, "\n".join(campaign.lost)
    assert not campaign.ledger.another, "\n".join(campaign.ledger.another)
    assert campaign.unexplained == 0
    assert campaign.sums.faults.total() == FAULTS
    assert campaign.ledger.keys


def test_every_kind_is_drawn_and_memory_is_lost_in_rounds_of_its_own() -> None:
    rounds = plan(random.Random(1), 1000)
    assert sum(map(len, rounds)) == 1000
    assert {kind for kinds in rounds for kind in kinds} == set(KINDS)
    losing = [sum(KINDS[kind].loses for kind in kinds) for kinds in rounds]
    assert max(losing) == DAMAGED
    assert losing.count(0) > len(rounds) / 2, "in most rounds links come back"
    assert max(map(len, rounds)) == IN_A_ROUND
    assert rounds == plan(random.Random(1), 1000)


def post(key: str, *incidents: dict[str, Any]) -> dict[str, Any]:
    return {"headers": {"Idempotency-Key": key}, "body": {"incidents": list(incidents)}}


def state(status: str, id: str = "i", device: str = "mlx5_1", **more: Any) -> dict[str, Any]:
    component = f"link(node-1/{device}/1)"
    return {
        "id": id, "since": "10:00", "status": status, "kind": "link_down", "component": component,
        "severity": "warning", "members": {"bad": 1, "of": 1}, "parts": [component],
        "title": f"Link down: {device}", **more,
    }  # fmt: skip


def booked(*posts: dict[str, Any], forgot: bool = False) -> Ledger:
    made = Ledger()
    made.take(posts, forgot)
    return made


def test_the_books_show_what_is_lost() -> None:
    books = booked(post("a", state("firing")), post("b", state("firing", "j", "mlx5_2")))
    assert books.wrong(["mlx5_1", "mlx5_2"], ["mlx5_3"]) == []
    assert books.wrong(["mlx5_1", "mlx5_3"], []) == ["mlx5_3 is down and does not fire"]
    assert books.wrong([], ["mlx5_2"]) == ["mlx5_2 is up and fires"]
    books.take([post("c", state("resolved"))], False)
    assert books.wrong([], ["mlx5_1"]) == []
    assert books.wrong(["mlx5_1"], []) == ["mlx5_1 is down and does not fire"]
    assert booked(post("a", state("firing", device="mlx5_12"))).wrong(["mlx5_1"], []) != []


def test_members_that_became_others_without_a_notification_are_no_loss() -> None:
    parts = ["node-1/mlx5_1/1", "node-1/mlx5_2/1"]
    books = booked(post("a", state("firing", component="host(node-1)", parts=parts)))
    now = {("i", "10:00"): ["node-1/mlx5_2/1", "node-1/mlx5_3/1"]}
    assert books.wrong(["mlx5_2", "mlx5_3"], ["mlx5_1"], now) == []
    for unknown in (("j", "10:00"), ("i", "11:00")):  # another incident, and another episode of this one
        assert books.wrong(["mlx5_3"], [], {unknown: ["node-1/mlx5_3/1"]}) != []
    books.take([post("b", state("resolved", component="host(node-1)", parts=parts))], False)
    assert books.wrong(["mlx5_2"], [], now) != []


def test_the_books_count_repeats_and_find_what_has_another_key() -> None:
    again = booked(post("a", state("firing")), post("a", state("firing")))
    assert (again.repeated, again.another) == (1, [])
    assert booked(post("a", state("firing")), post("a", state("resolved"))).another == ["key a has two contents"]
    [found] = booked(post("a", state("firing")), post("b", state("firing"))).another
    assert "again under key b" in found
    [found] = booked(post("a", state("firing")), post("b", state("firing", "other"))).another
    assert "is i and other" in found
    episodes = booked(post("a", state("firing")), post("b", state("resolved")), post("c", state("firing")))
    assert (episodes.repeated, episodes.another) == (0, [])
    forgot = booked(post("a", state("firing")), post("b", state("firing")), forgot=True)
    assert (forgot.another, forgot.anew) == ([], 1)


def test_what_a_server_without_its_database_does_not_know_is_stale() -> None:
    books = booked(post("a", state("firing")), post("b", state("firing", "j", "mlx5_2")), post("c", state("resolved")))
    books.forget({"k"}, ["mlx5_1"])
    assert (books.stale, books.wrong([], ["mlx5_2"]), books.another) == (1, [], [])
    books = booked(post("a", state("firing")))
    books.forget({"i"}, ["mlx5_1"])
    assert (books.stale, books.wrong(["mlx5_1"], [])) == (0, [])
    books.forget({"k"}, ["mlx5_1"])
    assert books.another == ["link_down link(node-1/mlx5_1/1) was not found again as i"]


@pytest.mark.parametrize(("members", "found"), [(["mlx5_0", "mlx5_1"], []), (["mlx5_2", "mlx5_3"], ["link_down"])])
def test_a_link_that_is_part_of_a_larger_incident_by_now_is_found_again(members: list[str], found: list[str]) -> None:
    parts = [f"node-1/{device}/1" for device in members]
    cage = state("firing", "c", kind="fault_domain", component="cage(node-1/0)", parts=parts)
    books = booked(post("a", state("firing")), post("b", cage, state("firing", "j", "mlx5_11")))
    books.forget({"c", "j"}, ["mlx5_1"])
    assert books.stale == 1
    assert [text.partition(" ")[0] for text in books.another] == found


def test_the_table_counts_a_round_once_in_its_total() -> None:
    sums = Sums()
    sums.add(["disk full", "disk full", "suspend"], {"lost": 1, "repeated": 2, "another": 0, "anew": 3})
    sums.add([], {"lost": 1, "repeated": 0, "another": 0, "anew": 0})
    rows = [line.split() for line in sums.table().splitlines()]
    assert rows[1] == ["disk", "full", "2", "1", "2", "0", "3"]
    assert rows[2] == ["suspend", "1", "1", "2", "0", "3"]
    assert rows[3][-5:] == ["3", "2", "2", "0", "3"]
