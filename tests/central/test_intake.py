"""Limits of what one agent may send: each of the table, what passes, and what of it is kept."""

import math
import operator
import re

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.catalogue import CATALOGUE
from fabricmon.central.streams.intake import Columns, RecentlyUsed, check_event, checked_inventory, usable
from fabricmon.central.streams.limits import LIMITS, SOURCES, OverLimit, check, most
from fabricmon.collect import COLLECTORS
from fabricmon.frame import Frame
from fabricmon.model import Component, Event, Identity, Inventory, Kind, Part
from fabricmon.sim.columns import PARTS
from tests.central.streams import ports
from tests.docs.test_lists_are_whole import section

WHO = Identity("host-1", "boot-1", "agent-1", "0.1.0", 1.0)
STATE = ("state",)


def part(*names, columns=STATE, kind=Kind.PORT, collector="infiniband_state", period=1.0, **labels):
    return Part(collector, kind, columns, tuple(Component(name, dict(labels)) for name in names), period)


def inventory(*parts, who=WHO):
    return Inventory(1, who, parts)


@pytest.mark.parametrize(
    ("limit", "beyond"),
    [
        ("parts", inventory(*[part("a")] * 1025)),
        ("values", inventory(*[part(*map(str, range(400)), columns=tuple(map(str, range(400))))])),
        ("components", inventory(part(*map(str, range(4097)), columns=()))),
        ("components", inventory(part("a", "a"))),
        ("components", inventory(part("a", kind=Kind.NODE))),
        ("components", inventory(part(""))),
        ("columns", inventory(part(columns=tuple(map(str, range(513)))))),
        ("columns", inventory(part("a", columns=("state", "state")))),
        ("labels", inventory(part("a", **{str(n): "" for n in range(49)}))),
        ("label_size", inventory(part("a", role="x" * 1025))),
        ("name_size", inventory(part("x" * 254))),
        ("name_size", inventory(part("a\nb"))),
        ("name_size", inventory(part("a", collector=""))),
        ("name_size", inventory(part("a"), who=Identity("host-1", "b" * 254, "a", "0", 1.0))),
        ("port_digits", inventory(part("a", port="1" * 1000))),
        ("period", inventory(part("a", period=1e300))),
        ("period", inventory(part("a", period=-1.0))),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_an_inventory_beyond_a_limit_is_refused_by_its_name(limit, beyond):
    with pytest.raises(OverLimit) as refused:
        checked_inventory(beyond, 0)
    assert refused.value.limit == limit


TEXTS = st.text(st.characters(codec="ascii", exclude_categories=["C"]), min_size=1, max_size=8)
WHOLE = st.lists(
    st.builds(
        lambda names, columns, kind, labels: part(*names, columns=tuple(columns), kind=kind, collector="c", **labels),
        st.sets(TEXTS, max_size=3), st.lists(TEXTS, unique=True, max_size=4), st.sampled_from([Kind.PORT, Kind.GPU]),
        st.dictionaries(st.sampled_from(["role", "board", "port_guid"]), TEXTS),
    ),
    max_size=4,
).map(lambda parts: inventory(*parts))  # fmt: skip


@given(WHOLE)
def test_what_is_kept_of_an_inventory_is_equal_to_it_and_shared_with_others(sent):
    twin = msgspec.json.decode(msgspec.json.encode(sent), type=Inventory)
    kept, other = checked_inventory(sent, 0), checked_inventory(twin, 0)
    assert kept == sent
    for one, same in zip(kept.parts, other.parts, strict=True):
        assert one.columns is same.columns
        assert all(map(operator.is_, words(one), words(same)))
        if one.components and "port_guid" not in one.components[0].labels:
            assert all(map(operator.is_, one.components, same.components))


def words(part):
    return [word for c in part.components for word in (c.name, *c.labels, *c.labels.values())]


@pytest.mark.parametrize(
    ("limit", "label", "value"), [("label_size", "board", "x" * 1025), ("port_digits", "port", "1" * 7)]
)
def test_a_component_like_one_that_passed_is_checked_all_the_same(limit, label, value):
    usual = {"port_guid": "0x1", "board": "b", "port": "1"}
    checked_inventory(inventory(part("like", **usual)), 0)
    with pytest.raises(OverLimit) as refused:
        checked_inventory(inventory(part("like", **usual | {label: value})), 0)
    assert refused.value.limit == limit


def test_of_machines_of_several_makes_each_shares_its_parts():
    makes = [inventory(part("port", netdev=f"ib{make}"), part("guid", port_guid=str(make))) for make in range(4)]
    first = [checked_inventory(make, 0).parts for make in makes]
    again = [checked_inventory(msgspec.json.decode(msgspec.json.encode(m), type=Inventory), 0).parts for m in makes]
    assert again == first
    assert all(one[0] is other[0] for one, other in zip(again, first, strict=True))


def test_what_is_too_large_to_be_kept_for_others_is_kept_of_its_node():
    large = inventory(part("a", columns=tuple(f"{n:0253}" for n in range(64)), role="x" * 1024, a="x" * 1024,
                           b="x" * 1024, c="x" * 1024, d="x" * 1024))  # fmt: skip
    kept, other = checked_inventory(large, 0), checked_inventory(large, 0)
    assert kept == other == large
    assert kept.parts[0].columns is not other.parts[0].columns
    assert kept.parts[0].components[0] is not other.parts[0].components[0]


def test_swept_ports_are_counted_apart():
    rows = [Component(f"leaf/{n}", {"swept": "switch"}) for n in range(10_000)]
    sweep = inventory(Part("fabric", Kind.PORT, STATE, tuple(rows), 10.0))
    checked_inventory(sweep, len(rows))
    with pytest.raises(OverLimit, match="components"):
        checked_inventory(sweep, 0)
    with pytest.raises(OverLimit, match="ports that one node sweeps"):
        check("swept_rows", most("swept_rows") + 1)


def test_ports_of_a_sweep_do_not_displace_what_nodes_share():
    mine = checked_inventory(inventory(part("mlx5_0/1", role="compute")), 0)
    rows = tuple(Component(f"leaf/{n}", {"swept": "switch"}) for n in range(3000))
    checked_inventory(inventory(Part("fabric", Kind.PORT, STATE, rows, 10.0)), len(rows))
    again = checked_inventory(inventory(part("mlx5_0/1", role="compute")), 0)
    assert again.parts[0].components[0] is mine.parts[0].components[0]


@pytest.mark.parametrize(
    ("kind", "name", "limit"), [(Kind.NODE, "leaf/1", "components"), (Kind.PORT, "", "components")]
)
def test_a_swept_port_that_is_known_passes_for_nothing_else(kind, name, limit):
    known = Component(name, {"swept": "switch"})
    with pytest.raises(OverLimit) as refused:
        checked_inventory(inventory(Part("fabric", kind, STATE, (known,), 10.0)), 1, lambda _: known)
    assert refused.value.limit == limit


@pytest.mark.parametrize("layer", PARTS)
def test_what_agents_deliver_is_kept_under_its_name(layer):
    parts = tuple(part("" if p.kind is Kind.NODE else "x", columns=p.columns, kind=p.kind, collector=p.collector)
                  for p in PARTS[layer])  # fmt: skip
    whole = inventory(*parts, ports())
    checked_inventory(whole, 0)
    assert Columns().named("host-1", whole) is whole


def test_every_collector_has_its_sources_and_every_column_that_travels_a_collector():
    assert SOURCES.keys() - {"flow"} == COLLECTORS.keys()
    known = frozenset().union(*SOURCES.values())
    assert not [c.name for c in CATALOGUE.values() if c.wire and c.source not in known and c.name not in known]


def test_columns_that_the_collector_has_not_are_not_kept():
    """Of another collector, of another kind, the fleet's own, of a newer agent; raw ones are, up to their number."""
    raw = tuple(f"raw:hw_counters/new_{n}" for n in range(most("raw_columns")))
    columns, whole = Columns(), inventory(
        part("a", columns=("state", "symbol_errors", "gpu_nvlinks", "presence", "of_a_newer_agent", *raw)),
        part("a", columns=("state",), collector="of_a_newer_agent"),
        part("", columns=("presence", "last_frame", "node_hcas_found"), kind=Kind.NODE, collector="inventory"),
    )  # fmt: skip
    kept = columns.named("host-1", whole)
    assert [p.columns for p in kept.parts] == [("state", "", "", "", "", *raw), ("",), ("", "", "node_hcas_found")]
    assert kept.size == whole.size
    with pytest.raises(OverLimit, match="raw counters of a node's drivers"):
        columns.named("host-1", inventory(part("a", columns=(*raw, "raw:hw_counters/one_more"))))
    with pytest.raises(OverLimit, match="does not give their collector"):
        columns.named("host-1", inventory(part("a", columns=tuple(map(str, range(257))))))


def test_raw_columns_are_bounded_over_all_nodes_and_leave_with_theirs():
    columns = Columns()
    for node in range(6):
        names = tuple(f"raw:hw_counters/{node}_{n}" for n in range(most("raw_columns")))
        columns.named(f"host-{node}", inventory(part("a", columns=names)))
    assert columns.raw == most("fleet_raw_columns")
    assert columns.named("late", inventory(part("a", columns=("raw:hw_counters/late",)))).parts[0].columns == ("",)
    columns.forget("host-0")
    late = inventory(part("a", columns=("raw:hw_counters/late", "raw:hw_counters/1_0")))
    assert columns.named("late", late) == late
    for node in range(6):
        columns.forget(f"host-{node}")
    assert columns.raw == 2
    columns.forget("late")
    assert columns.raw == 0


def test_values_that_no_counter_can_have_are_unknown():
    values = np.array([1.0, math.nan, -0.0, 5e-324, -7.0, math.inf, -math.inf, 1e308, 1.8446744073709552e19])
    frame = Frame(1, 1, 1.0, np.array([5.0, math.nan]), None, values, 9)
    kept = usable(frame).values
    assert np.isnan(kept).tolist() == [False, True, False, False, False, True, True, True, False]
    assert kept[-1] == values[-1]
    few = Frame(1, 1, 1.0, frame.taken, None, values[:5], 9)
    assert usable(few) is few
    with pytest.raises(OverLimit, match="after the start of its node"):
        usable(Frame(1, 1, 1.0, np.array([1e300]), None, values[:5], 9))
    with pytest.raises(OverLimit, match="read 1e\\+301 s after"):
        usable(Frame(1, 1, 1.0, np.array([5.0, 1e301, np.nan, -1e300]), None, values[:5], 9))


def test_an_event_has_a_name_and_a_number():
    check_event(Event(1, 0.0, "link", "mlx5_0/1", "text"))
    for wrong in (Event(2**63, 0.0, "link", "a", ""), Event(-1, 0.0, "link", "a", ""), Event(1, 0.0, "x", "a\n", "")):
        with pytest.raises(OverLimit):
            check_event(wrong)


def test_the_documented_budgets_are_those_of_the_code():
    """docs/security.md, Budgets of an agent."""
    table = section("security.md", "Budgets of an agent")
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \| (.*) \| (.*) \| (.*) \|$", table, re.MULTILINE)
    told = {name: (float(number), int(per.removesuffix(" s") or 0), what, why) for name, number, per, what, why in rows}
    assert told == {name: (limit.most, limit.per, limit.what, limit.why) for name, limit in LIMITS.items()}


def test_columns_that_the_catalogue_does_not_know_are_counted_and_cost_themselves():
    found = Columns()
    kept = found.named("a", inventory(part("p", columns=("state", "of_a_newer_agent"))))
    assert kept.parts[0].columns == ("state", "")
    assert found.unknown == {"a": ("of_a_newer_agent",)}
    found.named("a", inventory(part("p", columns=("state",))))
    assert found.unknown == {}


def test_different_components_are_bounded():
    many = [f"p{n}/1" for n in range(most("rows"))]
    checked_inventory(inventory(part(*many), part(*many, collector="infiniband")), 0)
    with pytest.raises(OverLimit, match="different components"):
        checked_inventory(inventory(part(*many), part("one_more/1")), 0)


@given(st.lists(st.integers(0, 30)), st.integers(1, 8))
def test_what_is_kept_of_other_nodes_is_bounded_and_what_was_used_last_is_there(keys, least):
    kept, order = RecentlyUsed(least), []
    for key in keys:
        found = kept.of(key)
        assert found in (None, str(key))
        assert found is not None or key not in order[:least]
        if found is None:
            kept.keep(key, str(key))
        order = [key, *(each for each in order if each != key)]
        assert len(kept) <= 2 * least
