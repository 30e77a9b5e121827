"""Pages of what is named: leaf, rail, unit, switch, adapter, cable, job; drawings; load and errors on the map."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path
from urllib.parse import quote

import aiohttp
import numpy as np
import pytest
import pytest_asyncio

from fabricmon.central.page.around import Trunks, neighbourhood, trunk
from fabricmon.central.page.components import PortRow, link_of, port_rows, tally_of
from fabricmon.central.page.drawing import MAX_BOXES, Box, Line, drawing
from fabricmon.central.page.map_levels import LIMITS, WORDS, map_levels
from fabricmon.central.page.named import KINDS, OF_WORD, NamedThing, Surroundings, find_named, swept_ends
from fabricmon.jobs.model import Job, Jobs
from fabricmon.model import ComponentId, Incident, Kind, Severity
from fabricmon.sim.faults import FAULTS
from fabricmon.topology.graph import End, cable
from tests.fabric.test_swept_links_on_the_server import PLAN, Site
from tests.page.scenes import NOW, incident
from tests.page.stage import Stage
from tests.page.test_map import Lab

PORT = ComponentId(Kind.PORT, "sweeper", "a/1")
CABLE = "host-003/mlx5_2/1, su0-rail2-leaf/4"
JOBS = [Jobs("slurm", NOW, (Job("4711", "train", "mara", ("host-001", "host-009", "host-999")),
                            Job("4712", "4711", "jon", ("host-002",))))]  # fmt: skip


@pytest.fixture(scope="module")
def around() -> Surroundings:
    engine = Lab().engine
    return Surroundings(engine.fleet, engine.topology(), JOBS)


@pytest.mark.parametrize(
    ("kind", "name", "ports", "nodes"),
    [("leaf", "su0/rail2", 8, 0), ("rail", "su1/7", 8, 0), ("nic", "host-003/mlx5_2", 1, 0), ("cable", CABLE, 1, 0),
     ("unit", "su0", 64, 8), ("switch", "su0-rail2-leaf", 8, 0), ("switch", "0x00aa000000000003", 8, 0),
     ("switch", "spine-03", 0, 0), ("power", "power-0", 128, 0), ("job", "train#4711", 16, 2), ("job", "4712", 8, 1),
     ("job", "4711", 16, 2), ("plane", "0", 128, 0)],
)  # fmt: skip
def test_what_has_a_name_is_found_with_its_ports(
    around: Surroundings, kind: str, name: str, ports: int, nodes: int
) -> None:
    found = find_named(kind, name, around)
    assert found is not None
    assert (found.kind, len(found.rows), len(found.nodes)) == (kind, ports, nodes)
    assert not len(found.swept)
    assert find_named(kind, name, around._replace(graph=None, jobs=())) is None or kind not in ("unit", "switch", "job")


def test_what_nothing_is_called_is_not_found(around: Surroundings) -> None:
    assert [find_named(kind, name, around) for kind in (*KINDS, "nothing") for name in ("", "nobody")] == [
        None for _ in range(2 * (len(KINDS) + 1))
    ]
    assert set(OF_WORD.values()) == set(KINDS)


@pytest.mark.parametrize(
    ("word", "where"),
    [("leaf(su0/rail2)", "named?kind=leaf&name=su0%2Frail2"),
     (f"link({CABLE})", f"named?kind=cable&name={quote(CABLE, '')}"),
     ("nic(host-003/mlx5_2)", "named?kind=nic&name=host-003%2Fmlx5_2"), ("host(host-003)", "node?name=host-003"),
     ("host-003/mlx5_2/1", "component?kind=port&node=host-003&name=mlx5_2%2F1"),
     ("spine-03", "named?kind=switch&name=spine-03"), ("su0-rail2-leaf/4", "named?kind=switch&name=su0-rail2-leaf"),
     ("gpu(host-003/gpu1)", "component?kind=gpu&node=host-003&name=gpu1"), ("network", ""), ("leaf(none)", "")],
)  # fmt: skip
def test_every_name_in_an_incident_links_to_its_page(around: Surroundings, word: str, where: str) -> None:
    html = unescape(link_of(around, word)).replace("+", "%20")
    assert (f'<a href="{where}">' in html) is bool(where)
    assert f"<code>{word}</code>" in html


def test_the_incidents_of_a_thing(around: Surroundings) -> None:
    leaf, unit = find_named("leaf", "su0/rail2", around), find_named("unit", "su0", around)
    assert leaf is not None
    assert unit is not None
    for made, of_leaf, of_unit in (
        (incident(component="leaf(su0/rail2)", parts=()), True, False),
        (incident(component="leaf(su0/rail22)", parts=()), False, False),
        (incident(component="link(x)", parts=("host-003/mlx5_2/1",)), True, True),
        (incident(component="host(host-003)", parts=("host-003",)), False, True),
        (incident(component="link(x)", parts=("host-009/mlx5_2/1", "gone")), False, False),
    ):
        assert leaf.concerns(made, set(leaf.rows.tolist()), around.fleet) is of_leaf
        assert unit.concerns(made, set(unit.rows.tolist()), around.fleet) is of_unit


def test_one_of_two_cables_is_of_both_and_leads_to_both(around: Surroundings) -> None:
    other = "su9-rail9-leaf/9, spine-99/9"
    html = unescape(link_of(around, f"link({other}, {CABLE})")).replace("+", "%20")
    assert f'<a href="named?kind=cable&name={quote(CABLE, "")}">' in html
    assert f"<code>link({other})</code> or <a" in html
    cable = find_named("cable", CABLE, around)
    assert cable is not None
    for names, of_it in ((f"{other}, {CABLE}", True), (f"{CABLE}, {other}", True), (other, False)):
        assert cable.concerns(incident(component=f"link({names})", parts=()), set(), around.fleet) is of_it


def test_a_drawing_has_a_box_for_each_and_lines_only_between_boxes() -> None:
    low = [Box(f"n{at}", f"host-{at:03}", f"node?name={at}", "ok") for at in range(MAX_BOXES + 3)]
    top = [Box("leaf", "leaf<1>", "named?x", "critical")]
    lines = [Line(box.id, "leaf", "ok", 0.5, box.label) for box in low]
    svg = drawing([("nodes", low), ("none", []), ("leaves", top)], lines, "around")
    assert svg.count("<rect") == MAX_BOXES + 1
    assert svg.count("<line") == MAX_BOXES
    assert ">nodes host-000 to host-066, 3 more<" in svg
    names = [float(y) for y in re.findall(r'class="tier" x="2" y="(\d+)"', svg)]
    assert names[0] < min(map(float, re.findall(r'<rect x="[^"]+" y="(\d+)"', svg)))
    assert names[1] > max(map(float, re.findall(r'<rect x="[^"]+" y="(\d+)"', svg)))  # below its lines
    assert ">012<" in svg
    assert "leaf&lt;1&gt;: critical or down" in svg
    assert "style=" not in svg
    assert drawing([("nodes", low)], [], "alone") == ""


@pytest.mark.parametrize("sizes", [(1, 1), (1, 5, 2), (64, 3), (70, 66, 1)])
@pytest.mark.parametrize("letters", [1, 12, 40])
def test_the_boxes_of_a_drawing_are_inside_it_and_apart_and_lines_join_their_edges(
    sizes: tuple[int, ...], letters: int
) -> None:
    tiers = [
        (f"tier {at}", [Box(f"{at}/{n}", f"{n}{'x' * letters}", "where", "ok") for n in range(size)])
        for at, size in enumerate(sizes)
    ]
    lines = [Line("0/0", "1/0", "ok", math.nan, "a cable"), Line("0/0", "absent", "ok", 0.0, "none")]
    svg = drawing(tiers, lines, "around")
    width, height = map(int, re.findall(r'<svg [^>]*width="(\d+)" height="(\d+)"', svg)[0])
    assert f'viewBox="0 0 {width} {height}"' in svg
    found = re.findall(r'<rect x="([-.\d]+)" y="([-.\d]+)" width="([-.\d]+)" height="([-.\d]+)"', svg)
    boxes = [(float(x), float(y), float(x) + float(w), float(y) + float(h)) for x, y, w, h in found]
    assert len(boxes) == sum(min(size, MAX_BOXES) for size in sizes)
    assert all(left >= 0 and right <= width and top > 0 and low < height for left, top, right, low in boxes)
    for at, one in enumerate(boxes):
        for other in boxes[at + 1 :]:
            assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
    assert height - max(low for *_, low in boxes) == pytest.approx(18, abs=0.6)
    ((x1, y1, x2, y2),) = re.findall(r'<line [^>]*x1="([^"]+)" y1="([^"]+)" x2="([^"]+)" y2="([^"]+)"', svg)
    ends = {(round((left + right) / 2), edge) for left, top, right, low in boxes for edge in (round(top), round(low))}
    assert {(round(float(x1)), round(float(y1))), (round(float(x2)), round(float(y2)))} <= ends


def test_switches_beside_a_switch_are_counted_by_their_cables(around: Surroundings) -> None:
    trunks = Trunks(around.graph)
    leaf = "0x00aa000000000003"
    above = trunks.beside(leaf, up=True)
    assert len(above) == 16
    assert trunks.beside(leaf, up=False) == []
    assert leaf in trunks.beside(above[0], up=False)
    assert sum(map(len, trunks.joined[leaf].values())) == 32
    assert Trunks(None).beside(leaf, up=True) == []


def test_a_line_between_switches_has_the_readings_of_a_sweep() -> None:
    site = Site(graph=PLAN.graph)
    site.run(70)
    engine = site.engine
    low, high = site.uplink()
    table = engine.fleet.tables[Kind.PORT]

    def line() -> Line:
        read = swept_ends(table)
        ports = {end: port_rows(engine.utilisation(), engine.fleet, [row])[0] for end, row in read.items()}
        one, other = (f"0x{at.node:016x}" for at in (low, high))
        cables = Trunks(engine.topology()).joined[one][other]
        return trunk(one, other, "leaf, spine", cables, ports, {})

    assert (line().state, line().title) == ("ok", "leaf, spine: 1 cable, 1 up, at most 0% utilised")
    site.played.pull(low)
    site.run(70)
    assert (line().state, line().title) == ("critical", "leaf, spine: 1 cable, 1 down")
    site.now += 600  # the sweeper is silent
    engine.tick(site.now)
    assert line().state == "unknown"


def test_a_line_of_many_cables_has_the_worst_state_and_the_highest_load() -> None:
    cables = [cable(End("a", at), End("b", at)) for at in range(5)]
    up, down = PortRow(PORT, {}, {}, True, True, 1.0, 0.2, 0.7), PortRow(PORT, {}, {}, False, True, 1.0, math.nan, 0.0)
    unknown = PortRow(PORT, {}, {}, None, False, math.nan, math.nan, math.nan)
    read = {End("a", 0): up, End("b", 0): unknown, End("b", 1): up, End("a", 2): down, End("a", 3): unknown}
    line = trunk("a", "b", "a, b", cables, read, {})
    assert (line.state, line.load) == ("critical", 0.7)
    assert line.title == "a, b: 5 cables, 1 down, 1 unknown, 2 up, 1 not monitored, at most 70% utilised"
    fine = {End("a", 0): up}
    assert trunk("a", "b", "a, b", cables, fine, {str(PORT): "warning"}).state == "warning"
    assert trunk("a", "b", "a, b", cables, fine, {}).state == "ok"
    nothing = trunk("a", "b", "a, b", cables, {}, {})
    assert (nothing.state, nothing.title) == ("none", "a, b: 5 cables, 5 not monitored")
    assert math.isnan(nothing.load)


def test_a_cable_that_is_up_and_has_an_incident_is_drawn_as_the_incident(around: Surroundings) -> None:
    engine = Lab().engine
    leaf, one = find_named("leaf", "su0/rail2", around), find_named("cable", CABLE, around)
    named = [incident(component=f"link({CABLE})", parts=("host-003/mlx5_2/1",), severity=Severity.WARNING),
             incident(component="x", parts=("host-003/mlx5_2/1",), severity=Severity.INFO),
             incident(component="x", parts=("host-004/mlx5_2/1",), status="resolved")]  # fmt: skip

    def drawn(thing: NamedThing | None, incidents: list[Incident]) -> str:
        assert thing is not None
        ports = port_rows(engine.utilisation(), engine.fleet, thing.rows)
        return neighbourhood(thing, ports, Trunks(around.graph), {}, {}, incidents, "here", lambda ends: {})

    assert drawn(leaf, named).count('<line class="warning"') == 1
    assert 'class="box warning"><title>mlx5_2/1: warning' in drawn(one, named)
    assert drawn(one, [*named, incident(parts=named[0].parts, severity=Severity.CRITICAL)]).count('"critical"') == 1
    assert "warning" not in drawn(leaf, named[1:])


def test_ports_together_and_the_worst_first() -> None:
    lab = Lab()
    table, of = lab.engine.fleet.tables[Kind.PORT], lab.engine.utilisation()
    tally, worst = tally_of(of, lab.engine.fleet, np.arange(16), 3)
    assert (tally.up, tally.down, tally.unknown, tally.known) == (16, 0, 0, 16)
    loads = np.fmax(of.receive, of.transmit)
    assert worst == sorted(range(16), key=lambda row: -loads[row])[:3]
    assert tally.receive == pytest.approx(of.receive[:16].mean())
    table.cells[table.columns["state"], [2, 5]] = (1.0, np.nan)
    table.cells[table.columns["phys_state"], 5] = np.nan
    changed, first = tally_of(of, lab.engine.fleet, np.arange(16), 2)
    assert (changed.up, changed.down, changed.unknown, first) == (14, 1, 1, [2, 5])


def test_levels_of_load_and_errors_are_given_by_cell() -> None:
    lab = Lab()
    plan, table = lab.plan(), lab.engine.fleet.tables[Kind.PORT]
    load, errors = np.full(table.n, 0.3), np.zeros(4)
    load[plan.rows[:4]] = (0.0, 0.01, 0.9, np.nan)
    found = map_levels(plan, table.generation, load, errors)
    assert found["load"][:5] == "015?2"
    assert set(found["errors"]) <= {"0", "?"}
    assert found["errors"].count("0") == 4
    assert {name: len(words) for name, words in WORDS.items()} == {name: len(at) + 1 for name, at in LIMITS.items()}
    plan.generation[0] += 1
    assert map_levels(plan, table.generation, load, errors)["load"][0] == "?"


@pytest_asyncio.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with Stage(tmp_path, 16) as stage:
        yield stage


async def test_the_pages_over_http(stage: Stage) -> None:
    async with aiohttp.ClientSession() as session:

        async def get(path: str) -> tuple[int, str]:
            async with session.get(stage.url + path) as answer:
                return answer.status, await answer.text()

        stage.strike([FAULTS["link_down"](stage.layout, "host-003/mlx5_2/1")])
        while "1 down" not in (html := (await get("named?kind=leaf&name=su0/rail2"))[1]):
            pass
        assert html.count('class="box ok"') == 8
        assert html.count("<line") == 8 + 16
        assert '<line class="critical"' in html
        assert html.index("host-003/mlx5_2/1</code>") < html.index("host-001/mlx5_2/1</code>")
        status, html = await get(f"named?kind=cable&name={quote(CABLE)}&part=1")
        assert status == 200
        assert "su0-rail2-leaf/4: not monitored." in html
        assert "<code>phys_state</code></th><td class='n'>2 (polling)</td><td class='n'></td>" in html
        for path, words in (("node?name=host-003", "Neighbourhood"), ("named?kind=unit&name=su0", "Nodes"),
                            ("component?kind=port&node=host-003&name=mlx5_1/1", "kind=cable"),
                            ("named?kind=switch&name=spine-03", "this switch"), ("page/levels", '"load"')):  # fmt: skip
            status, html = await get(path)
            assert (status, words in html) == (200, True), path
        assert (await get("named?kind=leaf&name=%3Cscript%3E"))[0] == 404
