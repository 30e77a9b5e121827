"""What one node's events and falls may leave in the engine."""

from fabricmon.engine.domains.learned_groups import APART, LearnedGroups
from fabricmon.engine.fleet_nodes import EVENT_FIELDS, EVENT_TEXT, EVENTS, FleetNodes
from fabricmon.fleet.fleet import Fleet
from fabricmon.model import ComponentId, Event, Kind


def event(component, text="lost carrier", **fields):
    return Event(1, 0.0, "link", component, text, fields)


def test_events_are_kept_per_node_and_cut():
    nodes = FleetNodes(Fleet())
    nodes.event("good", event("mlx5_0/1"), 0.0)
    for n in range(3 * EVENTS):
        nodes.event("bad", event(f"c{n}", "x" * 100_000, **{f"f{i}": 1.0 for i in range(1000)}), 0.0)
    assert sum(component.node == "bad" for component in nodes.events) == EVENTS
    assert nodes.events[ComponentId(Kind.PORT, "good", "mlx5_0/1")].text == "lost carrier"
    newest = nodes.events[ComponentId(Kind.PORT, "bad", f"c{3 * EVENTS - 1}")]
    assert (len(newest.text), len(newest.fields)) == (EVENT_TEXT, EVENT_FIELDS)
    assert ComponentId(Kind.PORT, "bad", "c0") not in nodes.events
    nodes.forget("bad")
    assert [component.node for component in nodes.events] == ["good"]


def test_a_component_that_reports_again_is_the_newest():
    nodes = FleetNodes(Fleet())
    for n in range(EVENTS):
        nodes.event("a", event(f"c{n}"), 0.0)
    nodes.event("a", event("c0", "again"), 0.0)
    nodes.event("a", event("one more"), 0.0)
    assert nodes.events[ComponentId(Kind.PORT, "a", "c0")].text == "again"
    assert ComponentId(Kind.PORT, "a", "c1") not in nodes.events


def test_learned_groups_leave_with_their_nodes():
    learned = LearnedGroups()
    ports = [ComponentId(Kind.PORT, f"host-{n}", "mlx5_0/1") for n in range(6)]
    for at in (0.0, 2 * APART):
        learned.add_falls([(port, at) for port in ports])
        learned.group_falls(at + 60.0)
    assert len(learned.groups) == 1
    learned.forget("host-0")
    assert {component.node for component in learned.groups[0].members} == {f"host-{n}" for n in range(1, 6)}
    for n in range(1, 6):
        learned.forget(f"host-{n}")
    assert not learned.groups
