"""What the page of a node or component reads from the fleet: ports, devices, values, places, and links in texts."""

from __future__ import annotations

import math

import pytest

from fabricmon.catalogue.counter import Category
from fabricmon.central.page import components
from fabricmon.central.page.components import PortRow, link_of, others_of, places_of, ports_of, values_of
from fabricmon.central.page.named import Surroundings
from fabricmon.fleet.utilisation import utilisation
from fabricmon.fleet.view import View
from fabricmon.model import Component, ComponentId, Kind, Part, Presence
from fabricmon.topology.domains import assign
from tests.fleet.site import Site, port_part

NAN = math.nan
LINE = 5e10
COLUMNS = ("state", "carrier", "rate", "rcv", "xmit")
SHOWN = {
    "active/1": (4.0, 0.0), "down/1": (1.0, 1.0), "carrier/1": (NAN, 1.0), "dark/1": (NAN, 0.0), "none/1": (NAN, NAN),
}  # fmt: skip
UP = {"active/1": True, "down/1": False, "carrier/1": True, "dark/1": False, "none/1": None}


def site() -> Site:
    made = Site()
    made.inventory(
        "a",
        port_part("x", COLUMNS, *SHOWN, device="mlx5_3", port="1", role="compute"),
        Part("gpu", Kind.GPU, ("gpu_nvlinks",), (Component("gpu1", {"model": "H"}), Component("gpu0")), 10.0),
    )
    made.inventory("b", port_part("x", COLUMNS, "other/1"))
    for second in (0, 10, 20):
        cells = {(name, "rate"): LINE for name in SHOWN} | {("gpu0", "gpu_nvlinks"): 18.0}
        for name, (state, carrier) in SHOWN.items():
            cells |= {(name, "state"): state, (name, "carrier"): carrier}
            cells |= {(name, "rcv"): 0.25 * LINE * second, (name, "xmit"): 0.5 * LINE * second}
        made.send("a", cells, 100.0 + second)
        made.tick(10.0)
    table = made.fleet.tables[Kind.PORT]
    table.domains = assign(None, list(zip(table.ids, table.labels, strict=True)), {"a": "rack-1"})
    return made


def rows_of(made: Site, node: str = "a") -> dict[str, PortRow]:
    of = utilisation(View(made.fleet.tables[Kind.PORT], made.now))
    return {row.id.name: row for row in ports_of(of, made.fleet, node)}


def test_a_port_is_up_or_down_by_its_state_else_by_its_carrier_and_unknown_without_both() -> None:
    made = site()
    found = rows_of(made)
    assert list(found) == sorted(SHOWN)
    assert {name: row.up for name, row in found.items()} == UP
    assert all(row.fresh for row in found.values())  # a rate was read of "none", too
    for row in found.values():
        assert (row.rate, row.receive, row.transmit) == pytest.approx((LINE, 0.25, 0.5))
        assert row.labels["device"] == "mlx5_3"
        assert row.places == {"rail": "0", "leaf": "", "link": f"a/{row.id.name}", "nic": "a/mlx5_3",
                              "power": "rack-1"}  # fmt: skip
    assert rows_of(made, "nobody") == {}
    (other,) = rows_of(made, "b").values()
    assert (other.fresh, other.up, math.isnan(other.rate)) == (False, None, True)


def test_of_old_readings_nothing_is_up_and_a_port_that_left_is_not_fresh() -> None:
    made = site()
    made.inventory("a", port_part("x", COLUMNS, "active/1", "down/1"))
    made.send("a", {}, 121.0, default=1.0)
    found = rows_of(made)
    assert {name for name, row in found.items() if row.fresh} == {"active/1", "down/1"}
    made.now += 100.0
    assert {(row.up, row.fresh) for row in rows_of(made).values()} == {(None, False)}


def test_a_port_that_came_after_the_figures_has_none() -> None:
    made = site()
    of = utilisation(View(made.fleet.tables[Kind.PORT], made.now))
    made.inventory("b", port_part("x", COLUMNS, "other/1", "new/1"))
    shown = {row.id.name: row for row in ports_of(of, made.fleet, "b")}
    assert sorted(shown) == ["new/1", "other/1"]
    assert all(math.isnan(value) for value in (shown["new/1"].rate, shown["new/1"].receive, shown["new/1"].transmit))


def test_other_components_of_a_node_by_name_and_not_more_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    made = site()
    gpus = [(id.name, labels.get("model")) for id, labels in others_of(made.fleet, "a", Kind.GPU)]
    assert gpus == [("gpu0", None), ("gpu1", "H")]
    assert others_of(made.fleet, "b", Kind.GPU) == others_of(made.fleet, "nobody", Kind.GPU) == []
    monkeypatch.setattr(components, "MAX_COMPONENTS", 1)
    assert [id.name for id, _ in others_of(made.fleet, "a", Kind.GPU)] == ["gpu0"]
    assert list(rows_of(made)) == ["active/1"]


def test_values_of_a_component_are_what_was_read_with_its_age() -> None:
    made = site()
    made.now += 7.0
    found = {value.name: value for value in values_of(made.fleet, ComponentId(Kind.PORT, "a", "active/1"), made.now)}
    assert sorted(found) == sorted(COLUMNS)
    xmit = found["xmit"]
    assert (xmit.value, xmit.unit, xmit.category, xmit.age, xmit.fresh) == (
        0.5 * LINE * 20, "bytes", Category.TRAFFIC, 17.0, True,
    )  # fmt: skip
    later = values_of(made.fleet, ComponentId(Kind.PORT, "a", "active/1"), made.now + 60.0)
    assert {(value.age, value.fresh) for value in later} == {(77.0, False)}
    assert values_of(made.fleet, ComponentId(Kind.PORT, "b", "other/1"), made.now) == []
    assert values_of(made.fleet, ComponentId(Kind.PORT, "a", "missing"), made.now) == []


def test_a_column_that_another_node_has_is_no_value_of_this_one() -> None:
    made = site()
    made.inventory("c", port_part("y", ("symbol_errors",), "p/1"))
    made.send("c", {("p/1", "symbol_errors"): 3.0}, 100.0)
    names = [value.name for value in values_of(made.fleet, ComponentId(Kind.PORT, "c", "p/1"), made.now)]
    assert names == ["symbol_errors"]


def test_places_are_those_that_have_a_name() -> None:
    made = site()
    found = places_of(made.fleet, ComponentId(Kind.PORT, "a", "active/1"), made.now)
    assert found == {"rail": "0", "link": "a/active/1", "nic": "a/mlx5_3", "power": "rack-1"}
    assert places_of(made.fleet, ComponentId(Kind.GPU, "a", "gpu0"), made.now) == {}
    assert places_of(made.fleet, ComponentId(Kind.PORT, "a", "missing"), made.now) == {}


def test_names_in_texts_lead_to_what_they_name() -> None:
    made = site()
    made.fleet.presence("a", Presence.LIVE, "", made.now)
    assert made.fleet.find("a") == ComponentId(Kind.NODE, "a", "")
    assert made.fleet.find("a/gpu0") == ComponentId(Kind.GPU, "a", "gpu0")
    assert made.fleet.find("a/active/1") == ComponentId(Kind.PORT, "a", "active/1")
    assert (made.fleet.find("z"), made.fleet.find("a/missing"), made.fleet.find("")) == (None, None, None)
    port, around = "component?kind=port&amp;node=a&amp;name=active%2F1", Surroundings(made.fleet, None)
    assert link_of(around, "a/active/1") == f'<a href="{port}"><code>a/active/1</code></a>'
    cable = "link(a/active/1, leaf-3/12)"
    assert link_of(around, cable) == f'<a href="{port}"><code>{cable}</code></a>'
    assert link_of(around, "a") == '<a href="node?name=a"><code>a</code></a>'
    assert link_of(around, "host(a)") == '<a href="node?name=a"><code>host(a)</code></a>'
    assert link_of(around, "leaf(<s1>)") == "<code>leaf(&lt;s1&gt;)</code>"
