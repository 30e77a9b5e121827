"""What may be done to nodes, and above all what may not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.catalogue.kinds import KINDS, Acting
from fabricmon.model import Incident, NodeView, Presence, Severity
from fabricmon.notify.acting import ActedNode, Deed, Terms, allowance, check_kinds, decide
from tests.notify.made import T0, incident

NOW = T0 + 1000.0
TERMS = Terms(kinds=("nic_fault", "pcie_degraded"), undo=True)


def fault(node: str, id: str = "", **changes: object) -> Incident:
    fields = {"kind": "nic_fault", "severity": Severity.CRITICAL, "confidence": 0.97}
    return incident(id or f"i-{node}", **{"component": f"nic({node}/mlx5_0)", **fields, **changes})


def nodes(count: int = 400, presence: Presence = Presence.LIVE, **changes: object) -> list[NodeView]:
    return [NodeView(f"n{n}", presence, "", T0, **changes) for n in range(count)]


def decided(incidents, *, terms=TERMS, silenced=(), fleet=None, held=(), exempt=None, deeds=(), now=NOW):
    return decide(terms, incidents, set(silenced), nodes() if fleet is None else fleet, held, exempt or {}, deeds, now)


def test_a_grave_fault_of_one_host_is_acted_on():
    found = decided([fault("n7")])
    assert [(node, i.id) for node, i in found.act] == [("n7", "i-n7")]
    assert not found.withheld


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"severity": Severity.WARNING}, "warning only"),
        ({"confidence": 0.6}, "confidence too low"),
        ({"confidence": float("nan")}, "confidence too low"),
        ({"since": NOW - 10}, "less than 60 s"),
    ],
)
def test_what_is_not_grave_sure_or_lasting_is_withheld(change, why):
    found = decided([fault("n7", **change)])
    assert found.act == []
    assert why in found.withheld["n7"]


@pytest.mark.parametrize("kind", ["link_down", "agent_silent", "host_unreachable", "fault_domain"])
def test_a_kind_that_is_not_listed_is_no_reason(kind):
    found = decided([fault("n7", kind=kind)])
    assert (found.act, found.withheld) == ([], {})


NEVER = [
    "agent_silent",
    "fault_domain",
    "host_unreachable",
    "latency",
    "maintenance",
    "mass_alarm",
    "telemetry_quality",
]


def test_these_are_all_that_say_that_something_is_not_known_or_wide():
    assert sorted(kind.name for kind in KINDS.values() if kind.acting is not Acting.ALLOWED) == NEVER


@pytest.mark.parametrize("kind", NEVER)
def test_not_knowing_is_never_a_reason_whatever_the_site_lists(kind):
    with pytest.raises(ValueError, match=kind):
        check_kinds(("nic_fault", kind))
    assert decided([fault("n7", kind=kind)], terms=Terms(kinds=(kind,))).act == []


def test_what_another_version_called_an_incident_is_no_reason():
    assert decided([fault("n7", kind="of_tomorrow")], terms=Terms(kinds=("of_tomorrow",))).act == []


def test_kinds_have_no_default():
    with pytest.raises(ValueError, match="no default"):
        check_kinds(())


@pytest.mark.parametrize("presence", [p for p in Presence if p not in (Presence.LIVE, Presence.SLOW)])
def test_a_node_that_is_not_seen_is_left_alone(presence):
    fleet = [*nodes(400)[1:], NodeView("n0", presence, "", T0)]
    found = decided([fault("n0")], fleet=fleet)
    assert found.act == []
    assert "unknown" in found.withheld["n0"]


def test_silence_and_maintenance_hold():
    assert "silenced" in decided([fault("n7")], silenced=["i-n7"]).withheld["n7"]
    assert "maintenance" in decided([fault("n7")], fleet=nodes(maintenance="m-1")).withheld["n7"]


def test_what_somebody_else_did_is_left_as_it_is():
    found = decided([fault("n7")], exempt={"n7": "is drained already: disk"})
    assert (found.act, found.withheld) == ([], {"n7": "is drained already: disk"})


def test_more_hosts_than_one_and_hosts_nobody_knows_are_no_reason():
    assert decided([fault("x", component="link(n1/mlx5_0/1, n2/mlx5_0/1)")]).act == []
    assert decided([fault("x", component="leaf(su1/rail2)")]).act == []
    assert decided([fault("stranger")]).act == []
    # the far end of a link is a switch, and no node of ours
    found = decided([fault("x", component="link(n1/mlx5_0/1, leaf-3/12)")])
    assert [node for node, _ in found.act] == ["n1"]


def test_a_mass_alarm_that_takes_no_more_members_stops_actions_because_of_its_members_only():
    times = {"from": str(NOW - 900), "until": str(NOW - 500)}
    alarm = incident("m", kind="mass_alarm", severity=Severity.CRITICAL, labels=times)
    member, other = fault("n7", since=NOW - 800, history=()), fault("n8", since=NOW - 100, history=())
    found = decided([member, other, alarm])
    assert [node for node, _ in found.act] == ["n8"]
    assert "mass alarm" in found.withheld["n7"]


def test_a_mass_alarm_stops_everything():
    found = decided([fault("n7"), incident("m", kind="mass_alarm", severity=Severity.CRITICAL)])
    assert found.act == []
    assert "mass alarm" in found.withheld["n7"]


@pytest.mark.parametrize(("seen", "most"), [(0, 0), (1, 1), (199, 1), (400, 2), (2000, 10), (100_000, 10)])
def test_how_many_at_once(seen, most):
    assert allowance(TERMS, nodes(seen)) == most


def test_a_server_that_lost_sight_of_the_fleet_does_nothing():
    fleet = [*nodes(399, Presence.UNREACHABLE), NodeView("n399", Presence.LIVE, "", T0)]
    assert len(decided([fault("n399")], fleet=fleet).act) == 1
    assert allowance(TERMS, nodes(400, Presence.UNREACHABLE)) == 0


def test_what_stands_counts_and_the_hour_counts():
    faults = [fault(f"n{n}") for n in range(5)]
    found = decided(faults)
    assert len(found.act) == 2  # 0.5 % of 400
    assert len(found.withheld) == 3
    assert decided(faults, held=[ActedNode("n8", "i-8"), ActedNode("n9", "i-9")]).act == []
    deeds = [Deed("slurm", f"x{n}", "drain", "i", NOW - 60) for n in range(10)]
    assert "an hour" in decided(faults, deeds=deeds).withheld["n0"]
    old = [Deed("slurm", f"x{n}", "drain", "i", NOW - 3601) for n in range(10)]
    assert len(decided(faults, deeds=old).act) == 2
    undone = [Deed("slurm", f"x{n}", "resume", "i", NOW - 60, undo=True) for n in range(10)]
    assert len(decided(faults, deeds=undone).act) == 2


def test_the_gravest_and_oldest_incident_of_a_node_counts_and_a_held_node_is_left():
    found = decided([fault("n7", "new", since=NOW - 100), fault("n7", "old", since=NOW - 500)])
    assert [i.id for _, i in found.act] == ["old"]
    assert decided([fault("n7")], held=[ActedNode("n7", "i-n7")]).act == []


def over(**changes: object) -> Incident:
    return fault("n7", status="resolved", resolved=NOW - 700, **changes)


def test_what_is_over_for_long_enough_is_taken_back():
    assert decided([over()], held=[ActedNode("n7", "i-n7")]).undo == [ActedNode("n7", "i-n7")]


@pytest.mark.parametrize(
    "why",
    ["not allowed", "still fires", "another fires", "just over", "nobody knows the incident", "the node is silent"],
)
def test_what_is_not_surely_over_stays(why):
    held, terms, fleet = [ActedNode("n7", "i-n7")], TERMS, nodes()
    incidents = [over()]
    match why:
        case "not allowed":
            terms = Terms(kinds=TERMS.kinds)
        case "still fires":
            incidents = [fault("n7")]
        case "another fires":
            incidents.append(fault("n7", "other", severity=Severity.INFO))
        case "just over":
            incidents = [fault("n7", status="resolved", resolved=NOW - 10)]
        case "nobody knows the incident":
            incidents = []
        case "the node is silent":
            fleet = nodes(presence=Presence.UNREACHABLE)
    assert decided(incidents, held=held, terms=terms, fleet=fleet).undo == []


def part_of(id: str, larger: str, ended: float) -> Incident:
    return fault("n7", id, status="resolved", resolved=ended, labels={"absorbed_by": larger})


def test_what_became_part_of_a_larger_incident_is_over_when_the_last_of_them_is():
    held, chain = [ActedNode("n7", "i")], [part_of("i", "nic", NOW - 9000), part_of("nic", "leaf", NOW - 8000)]

    def leaf(**changes: object) -> Incident:
        return incident("leaf", kind="fault_domain", component="leaf(su1/rail2)", **changes)

    assert decided([*chain, leaf(since=NOW - 8000)], held=held).undo == []
    assert decided([*chain, leaf(status="resolved", resolved=NOW - 10)], held=held).undo == []
    assert decided(chain, held=held).undo == []  # of the leaf nothing is known
    assert decided([*chain, leaf(status="resolved", resolved=NOW - 700)], held=held).undo == held


STATES = st.sampled_from(list(Presence))


@given(st.lists(st.tuples(st.integers(0, 30), STATES, st.sampled_from(("nic_fault", "agent_silent"))), max_size=60))
def test_never_more_than_allowed_and_never_the_unseen(rows):
    fleet = {f"n{n}": NodeView(f"n{n}", presence, "", T0) for n, presence, _ in rows}
    faults = [fault(f"n{n}", f"i{k}", kind=kind) for k, (n, _, kind) in enumerate(rows)]
    found = decided(faults, fleet=list(fleet.values()), terms=Terms(kinds=("nic_fault",), most_share=0.1))
    assert len(found.act) <= allowance(Terms(kinds=(), most_share=0.1), list(fleet.values()))
    for node, because in found.act:
        assert fleet[node].presence in (Presence.LIVE, Presence.SLOW)
        assert because.kind == "nic_fault"
        assert node not in found.withheld
