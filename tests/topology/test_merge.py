"""Several sources of one fabric: who is who, what wins, what contradicts what, plan against live."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from fabricmon import sources
from fabricmon.sim import shapes
from fabricmon.sim.dump import write
from fabricmon.topology import findings, infer
from fabricmon.topology.graph import Adapter, Cable, End, Finding, Graph, Origin, Role, cable
from fabricmon.topology.merge import merge


def told(graph: Graph, role: Role, taken: float = 1e9, kind: str = "test") -> Graph:
    origin = Origin(kind, role.value, role, taken)
    return replace(graph, origins=(origin,), source=str(origin), findings=())


def renamed(graph: Graph) -> Graph:
    """The same fabric as a plan has it: names in capitals, no GUIDs."""
    ids = {key: switch.name.upper() for key, switch in graph.switches.items()}
    ids |= {key: f"{a.host}/{a.name}" for key, a in graph.adapters.items()}
    cables = tuple(
        cable(End(ids[c.a.node], c.a.port), End(ids[c.b.node], c.b.port), c.rate, c.width) for c in graph.cables
    )
    return Graph(
        {ids[key]: replace(s, id=ids[key], name=ids[key], labels={}) for key, s in graph.switches.items()},
        {ids[key]: Adapter(ids[key], a.host, a.name) for key, a in graph.adapters.items()},
        cables, {host: {"rack": "r1"} for host in graph.hosts},
    )  # fmt: skip


LIVE = shapes.rail_optimised()
PLAN = renamed(LIVE)


def both(live: Graph, plan: Graph) -> Graph:
    return merge([told(plan, Role.PLAN), told(live, Role.LIVE)])


def kinds(found: tuple[Finding, ...]) -> list[str]:
    return [finding.kind for finding in found]


def ends(graph: Graph, title: str) -> Cable:
    (found,) = [link for link in graph.cables if graph.title(link) == title]
    return found


def test_a_plan_in_other_spelling_is_the_same_fabric() -> None:
    graph = both(LIVE, PLAN)
    assert graph.findings == ()
    assert graph.switches.keys() == LIVE.switches.keys()
    assert graph.adapters.keys() == LIVE.adapters.keys()
    assert {(c.a, c.b) for c in graph.cables} == {(c.a, c.b) for c in LIVE.cables}
    assert [origin.role for origin in graph.origins] == [Role.LIVE, Role.PLAN]
    assert {c.labels["sources"] for c in graph.cables} == {"0,1"}
    assert graph.hosts["host-003"]["rack"] == "r1"


def test_the_order_of_the_files_does_not_matter() -> None:
    one, other = told(PLAN, Role.PLAN), told(LIVE, Role.LIVE)
    assert merge([one, other]) == merge([other, one])


def test_swapped_cables_are_one_miswiring_with_all_four_ends() -> None:
    a = ends(LIVE, "host-003/mlx5_1/1, su0-rail1-leaf/4")
    b = ends(LIVE, "host-003/mlx5_2/1, su0-rail2-leaf/4")
    swapped = (cable(a.b, b.a, a.rate, 4), cable(b.b, a.a, b.rate, 4))
    live = replace(LIVE, cables=(*(c for c in LIVE.cables if c not in (a, b)), *swapped))
    graph = both(live, PLAN)
    (finding,) = graph.findings
    assert finding.kind == "miswired"
    assert finding.components == ("host-003/mlx5_1/1", "host-003/mlx5_2/1", "su0-rail1-leaf/4", "su0-rail2-leaf/4")
    assert "found: (host-003/mlx5_1/1, su0-rail2-leaf/4)" in finding.why
    assert {(c.a, c.b) for c in graph.cables} == {(c.a, c.b) for c in live.cables}


def test_a_planned_cable_that_is_not_there_stays_in_the_graph() -> None:
    gone = ends(LIVE, "host-003/mlx5_1/1, su0-rail1-leaf/4")
    graph = both(replace(LIVE, cables=tuple(c for c in LIVE.cables if c != gone)), PLAN)
    (finding,) = graph.findings
    assert (finding.kind, finding.components) == ("missing_link", ("host-003/mlx5_1/1, su0-rail1-leaf/4",))
    kept = ends(graph, "host-003/mlx5_1/1, su0-rail1-leaf/4")
    assert (kept.a, kept.b) == (gone.a, gone.b)
    assert kept.labels["sources"] == "1"


def test_a_node_that_is_not_there_is_one_finding() -> None:
    key = next(key for key, s in LIVE.switches.items() if s.name == "spine-002")
    live = replace(
        LIVE, switches={k: s for k, s in LIVE.switches.items() if k != key},
        cables=tuple(c for c in LIVE.cables if key not in (c.a.node, c.b.node)),
    )  # fmt: skip
    (finding,) = both(live, PLAN).findings
    assert (finding.kind, finding.components) == ("missing_node", ("SPINE-002",))
    assert "16 links" in finding.why


def test_a_cable_nobody_planned() -> None:
    extra = cable(End(next(iter(LIVE.switches)), 63), End(list(LIVE.switches)[1], 63), 5e10, 4)
    (finding,) = both(replace(LIVE, cables=(*LIVE.cables, extra)), PLAN).findings
    assert (finding.kind, len(finding.components)) == ("unplanned_link", 1)


def test_a_plan_of_the_uplinks_says_nothing_of_the_hosts() -> None:
    ups = replace(PLAN, adapters={}, hosts={}, cables=tuple(
        c for c in PLAN.cables if {c.a.node, c.b.node} <= PLAN.switches.keys()
    ))  # fmt: skip
    assert both(LIVE, ups).findings == ()


def test_a_part_that_no_source_sees_is_one_finding() -> None:
    other = renamed(shapes.torus3d(3, 3, 3))
    plan = replace(
        PLAN, switches=PLAN.switches | other.switches,
        cables=PLAN.cables + tuple(c for c in other.cables if {c.a.node, c.b.node} <= other.switches.keys()),
    )  # fmt: skip
    (finding,) = both(LIVE, plan).findings
    assert (finding.kind, len(finding.components)) == ("unseen_part", 27)


def test_a_link_below_its_planned_rate() -> None:
    first = LIVE.cables[0]
    slow = Cable(first.a, first.b, first.rate / 2, 2)
    (finding,) = both(replace(LIVE, cables=(slow, *LIVE.cables[1:])), PLAN).findings
    assert (finding.kind, finding.components) == ("below_plan", (LIVE.title(first),))
    assert "200 of 400 Gb/s" in finding.why


def test_lldp_of_some_hosts_accuses_nobody_else() -> None:
    hosts = ("host-001", "host-002")
    own = {key for key, a in PLAN.adapters.items() if a.host in hosts}
    below = {name: switch for name, switch in PLAN.switches.items() if name.startswith("SU0")}
    lldp = replace(
        PLAN, switches=below, adapters={k: PLAN.adapters[k] for k in own}, stated={"view": "hosts"},
        hosts={host: {} for host in hosts},
        cables=tuple(c for c in PLAN.cables if own & {c.a.node, c.b.node}),
    )  # fmt: skip
    (unseen,) = both(lldp, PLAN).findings  # the other unit and its hosts; spines have a neighbour in sight
    assert unseen.kind == "unseen_part"
    assert not [name for name in unseen.components if name.startswith(("SU0", "host-000", "host-007"))]
    gone = "host-001/mlx5_3"
    less = replace(
        lldp, adapters={k: a for k, a in lldp.adapters.items() if k != gone},
        cables=tuple(c for c in lldp.cables if gone not in (c.a.node, c.b.node)),
    )  # fmt: skip
    found = {finding.kind: finding.components for finding in both(less, PLAN).findings}
    assert found["missing_link"] == ("host-001/mlx5_3/1, SU0-RAIL3-LEAF/2",)


def test_the_newer_of_two_live_sources_wins() -> None:
    first, second = LIVE.cables[:2]
    crossed = (cable(first.a, second.b, first.rate, 4), cable(second.a, first.b, first.rate, 4))
    newer = replace(LIVE, cables=(*crossed, *LIVE.cables[2:]))
    graph = merge([told(LIVE, Role.LIVE, 1e9), told(newer, Role.LIVE, 2e9)])
    assert {(c.a, c.b) for c in graph.cables} == {(c.a, c.b) for c in newer.cables}
    (finding,) = graph.findings
    assert finding.kind == "contradiction"
    assert "2001-09-09" in finding.why


def test_labels_that_contradict_each_other() -> None:
    live = replace(LIVE, hosts={host: {"rack": "r2"} for host in LIVE.hosts})
    graph = both(live, PLAN)
    (finding,) = graph.findings
    assert finding.kind == "contradiction"
    assert len(finding.components) == 16
    assert "host-000 is in r2, not in r1" in finding.why
    assert graph.hosts["host-000"]["rack"] == "r2"


def placement(groups: dict[str, list[str]]) -> Graph:
    from fabricmon.topology.graph import Switch

    attached = {host: (group,) for group, hosts in groups.items() for host in hosts}
    switches = {name: Switch(name, name, 0) for name in groups} | {"top": Switch("top", "top")}
    return Graph(
        switches, {}, (), {host: {} for host in attached}, attached=attached,
        trunks=tuple((name, "top") for name in groups),
    )  # fmt: skip


UNITS = {"sl-1": [f"host-{n:03d}" for n in range(8)], "sl-2": [f"host-{n:03d}" for n in range(8, 16)]}


def test_a_placement_that_agrees_adds_nothing() -> None:
    graph = merge([told(placement(UNITS), Role.PLACEMENT), told(LIVE, Role.LIVE)])
    assert graph.findings == ()
    assert graph.switches.keys() == LIVE.switches.keys()
    assert (graph.attached, graph.trunks) == ({}, ())


def test_a_host_that_a_scheduler_puts_elsewhere() -> None:
    wrong = {"sl-1": [*UNITS["sl-1"][:7], "host-008"], "sl-2": [*UNITS["sl-2"][1:], "host-007"]}
    graph = merge([told(placement(wrong), Role.PLACEMENT), told(LIVE, Role.LIVE)])
    assert [(f.kind, f.components) for f in graph.findings] == [
        ("misplaced_host", ("host-008",)), ("misplaced_host", ("host-007",)),
    ]  # fmt: skip


def test_two_placements_are_compared_and_not_added_up() -> None:
    first, second = placement(UNITS), placement({"x": UNITS["sl-1"][:7], "y": [*UNITS["sl-2"], UNITS["sl-1"][7]]})
    graph = merge([told(first, Role.PLACEMENT, 2e9), told(second, Role.PLACEMENT, 1e9)])
    assert set(graph.switches) == {"sl-1", "sl-2", "top"}
    assert graph.attached["host-007"] == ("sl-1",)
    assert [(f.kind, f.components) for f in graph.findings] == [("misplaced_host", ("host-007",))]


def test_hosts_that_only_a_scheduler_knows_are_placed_by_it() -> None:
    more = {**UNITS, "sl-3": ["host-100.example", "host-101"]}
    graph = merge([told(placement(more), Role.PLACEMENT), told(LIVE, Role.LIVE)])
    assert set(graph.attached) == {"host-100.example", "host-101"}
    assert {s.name for s in graph.switches.values()} >= {"sl-3", "top"}
    assert not {"sl-1", "sl-2"} & {s.name for s in graph.switches.values()}


def test_a_replaced_switch_is_recognised_by_its_name() -> None:
    key = next(key for key, s in LIVE.switches.items() if s.name == "spine-002")
    new = "0x00aa00000000ffff"
    plan_ids = {key: new}
    plan = replace(
        LIVE, switches={plan_ids.get(k, k): replace(s, id=plan_ids.get(k, k)) for k, s in LIVE.switches.items()},
        cables=tuple(
            cable(*(End(plan_ids.get(end.node, end.node), end.port) for end in (c.a, c.b)), c.rate) for c in LIVE.cables
        ),
    )  # fmt: skip
    graph = both(LIVE, plan)
    assert kinds(graph.findings) == ["contradiction"]
    assert "replaced?" in graph.findings[0].why
    assert graph.switches.keys() == LIVE.switches.keys()


def test_the_one_line_form_joins_the_full_form(tmp_path: Path) -> None:
    full = tmp_path / "full.txt"
    full.write_text(write(LIVE))
    graph = sources.load_all([str(full), str(full)])
    single = sources.load(str(full))
    assert {(c.a, c.b) for c in graph.cables} == {(c.a, c.b) for c in single.cables}
    assert graph.findings == single.findings == ()


def test_files_of_several_formats(tmp_path: Path) -> None:
    dump, plan, slurm = (tmp_path / name for name in ("dump.txt", "plan.yaml", "topology.conf"))
    dump.write_text(write(shapes.rail_optimised(2, 8, 4, 4)))
    plan.write_text(
        "hosts:\n  host-[000-015]: {adapters: ['mlx5_[0-3]']}\n"
        "switches:\n  su[0,1]-rail[0-3]-leaf: {rack: r9}\n"
        "links:\n- {from: 'host-[000-007]/mlx5_0', to: 'su0-rail0-leaf/[1-6,8,7]'}\n"
        "racks:\n  r1: ['host-[000-015]']\n"
    )
    slurm.write_text("SwitchName=a Nodes=host-[000-007]\nSwitchName=b Nodes=host-[008-015]\n")
    graph = sources.load_all([str(slurm), str(plan), str(dump)])
    assert [origin.kind for origin in graph.origins] == ["ibnetdiscover", "yaml", "slurm"]
    (miswired,) = [f for f in graph.findings if f.kind == "miswired"]
    assert miswired.components == (
        "host-006/mlx5_0/1", "host-007/mlx5_0/1", "su0-rail0-leaf/7", "su0-rail0-leaf/8",
    )  # fmt: skip
    assert graph.hosts["host-003"] == {"rack": "r1", "unit": "su0"}
    assert len(graph.adapters) == 64


def test_one_graph_comes_back_as_it_is() -> None:
    graph = told(LIVE, Role.LIVE)
    assert merge([graph]) is graph


@pytest.mark.parametrize("build", [shapes.fat_tree, shapes.dragonfly, shapes.torus3d])
def test_any_shape_merged_with_itself_is_itself(build: Callable[..., Graph]) -> None:
    graph = build(4, 3) if build is shapes.fat_tree else build(3, 3, 3)
    graph = replace(graph, hosts={})
    merged = findings.check(infer.annotate(both(graph, replace(renamed(graph), hosts={}))))
    assert merged.findings == ()
    assert {(c.a, c.b) for c in merged.cables} == {(c.a, c.b) for c in graph.cables}
