"""Each cell of the heat map stands in the row of the leaf from which its probes go and the column of their target."""

from __future__ import annotations

import re

from fabricmon.central.page.heat_map import probes_page
from fabricmon.fleet.leaf_pairs import leaf_pairs, probed_flows
from fabricmon.model import Kind
from tests.probe.fleet_of_probes import ProbedFleet

_NUMBER = r"([-.\d]+)"


def test_a_cell_is_where_the_row_and_the_column_of_its_leaves_meet() -> None:
    fleet = ProbedFleet(leaves=4, hosts=3)
    fleet.loss = lambda one, other, _: float(one == "n1" and other > "n8")
    fleet.step(3)
    tables = fleet.engine.fleet.tables
    html = probes_page(leaf_pairs(probed_flows(tables[Kind.FLOW], tables[Kind.PORT])), "0")
    rows = {leaf: float(y) for y, leaf in re.findall(rf'class="name" x="\d+" y="{_NUMBER}">([^<]+)<', html)}
    heads = {f"leaf-{int(n) - 1}": float(x) for x, n in re.findall(rf'<text x="{_NUMBER}" y="15">(\d+)<', html)}
    assert list(rows) == list(heads) == [f"leaf-{n}" for n in range(4)]
    cells = re.findall(
        rf'<title>(leaf-\d) to (leaf-\d):[^<]*, (\d+) of [^<]*</title><rect class="[^"]*" x="{_NUMBER}" y="{_NUMBER}"'
        rf' width="{_NUMBER}" height="{_NUMBER}"/>(?:<path class="lost" d="M{_NUMBER} {_NUMBER}l)?',
        html,
    )
    assert len(cells) == html.count("<rect") > 8
    width, height = map(float, re.findall(r'width="(\d+)" height="(\d+)"\s*aria', html)[0])
    for near, far, lost, *numbers in cells:
        x, y, wide, high = map(float, numbers[:4])
        assert x < heads[far] < x + wide
        assert y < rows[near] < y + high
        assert x + wide <= width
        assert y + high <= height
        assert bool(int(lost)) is bool(numbers[4])
        if numbers[4]:
            assert x < float(numbers[4]) < x + wide
            assert y < float(numbers[5]) < y + high
    assert any(int(lost) for _, _, lost, *_ in cells)
    assert len({tuple(numbers[:2]) for _, _, _, *numbers in cells}) == len(cells)
