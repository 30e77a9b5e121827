"""A day of the members of incidents: two minutes apart, over restarts, within its budget."""

import pytest

from fabricmon.central.store.store import Store
from fabricmon.fleet import daylong
from fabricmon.fleet.closeup import Closeup
from fabricmon.fleet.daylong import Daylong, StoredDay
from fabricmon.model import ComponentId, Kind
from tests.page.test_last_hours import NOW, PORT, Node

OTHER = ComponentId(Kind.PORT, "a", "mlx5_1/1")
BEGIN = NOW - NOW % daylong.STEP


def live(node, close, day, seconds, rate=2.0, follow=(PORT,)):
    """Read every 15 s: errors at a rate per second."""
    for _ in range(int(seconds / 15.0)):
        node.at += 15.0
        node.read(node.at, symbol_errors=node.values["symbol_errors"] + 15.0 * rate)
        close.update(follow, node.fleet.tables, node.at)
        day.update(close, node.at)


@pytest.fixture
def node():
    made = Node()
    made.at = BEGIN
    return made


def points(day, node, component=PORT):
    return {s.name: dict(s.points) for s in day.series_of(component, node.at)}


def test_a_slot_is_the_mean_of_its_readings(node):
    close, day = Closeup(), Daylong()
    live(node, close, day, 600.0, rate=2.0)
    live(node, close, day, 600.0, rate=4.0)
    errors = points(day, node)["symbol_errors"]
    assert set(errors) <= {BEGIN + (n + 0.5) * daylong.STEP for n in range(10)}
    assert len(errors) >= 8
    assert errors[BEGIN + 3.5 * daylong.STEP] == pytest.approx(2.0)
    assert errors[BEGIN + 7.5 * daylong.STEP] == pytest.approx(4.0)
    assert "rcv_errors" not in points(day, node)  # never moved


def test_it_is_kept_when_it_is_no_longer_followed_for_a_day(node):
    close, day = Closeup(), Daylong()
    live(node, close, day, 600.0)
    before = points(day, node)["symbol_errors"]
    close.update((), node.fleet.tables, node.at)
    assert close.followed == 0
    day.update(close, node.at + 3600.0)
    assert dict(day.series_of(PORT, node.at + 3600.0)[0].points) == before
    day.update(close, node.at + 86400.0 + 600.0)
    assert day.series_of(PORT, node.at + 86400.0 + 600.0) == []
    assert day.series == 0


async def test_it_survives_a_restart_and_a_gap_stays_a_gap(node, tmp_path):
    close, day = Closeup(), Daylong()
    live(node, close, day, 600.0)
    before = points(day, node)["symbol_errors"]
    store = Store(tmp_path, node.at)
    await store.keep_days(*day.unsaved())
    assert day.unsaved() == ([], [])
    store.close()

    store = Store(tmp_path, node.at)
    close, day = Closeup(), Daylong(store.load(node.at).days)
    assert points(day, node)["symbol_errors"] == pytest.approx(before)
    node.at += 1200.0
    live(node, close, day, 600.0)
    after = points(day, node)["symbol_errors"]
    assert {at: after[at] for at in before} == pytest.approx(before)
    assert not [at for at in after if BEGIN + 600.0 < at < BEGIN + 1800.0]
    assert len(after) > len(before)
    assert await store.prune(node.at + 2 * 86400.0) == 1
    store.close()


def test_the_component_recorded_least_recently_goes_first(node, monkeypatch):
    monkeypatch.setattr(daylong, "MAX_SERIES", 1)
    close, day = Closeup(), Daylong()
    live(node, close, day, 300.0)
    assert points(day, node).keys() == {"symbol_errors"}
    day.unsaved()
    live(node, close, day, 600.0, follow=(OTHER,))
    assert points(day, node) == {}
    assert points(day, node, OTHER).keys() == {"symbol_errors"}
    stored, gone = day.unsaved()
    assert ([one.component for one in stored], gone) == (["port/a/mlx5_1/1"], ["port/a/mlx5_0/1"])


def test_a_component_that_had_to_go_and_is_followed_again_is_stored_and_not_deleted(node, monkeypatch):
    monkeypatch.setattr(daylong, "MAX_SERIES", 1)
    close, day = Closeup(), Daylong()
    for follow in (PORT, OTHER, PORT):
        live(node, close, day, 600.0, follow=(follow,))
    stored, gone = day.unsaved()
    assert ([one.component for one in stored], gone) == (["port/a/mlx5_0/1"], ["port/a/mlx5_1/1"])


def test_what_is_no_day_is_left_out():
    wrong = [StoredDay("nonsense", 1.0, 5, {}), StoredDay("port/a/b", 1.0, 5, {"x": b"short"})]
    assert Daylong(wrong).series == 0


def test_the_budget_in_the_documents_is_that_of_the_code():
    assert daylong.MAX_SERIES * daylong.KEPT * 4 <= 24e6
    assert daylong.KEPT * daylong.STEP == 86400.0
