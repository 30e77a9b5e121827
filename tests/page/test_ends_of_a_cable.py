"""The page of a cable shows at each end what is read there: by the host's own agent, by a sweep, or nothing."""

from __future__ import annotations

import asyncio
import re
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fabricmon.central.evaluation.evaluator import Evaluator
from fabricmon.central.website.named import NamedPages
from fabricmon.model import Kind
from tests.fabric.test_swept_links_on_the_server import PLAN, Site


@pytest.mark.parametrize("hosts", [True, False])
def test_each_end_has_the_readings_of_its_own_port(hosts: bool) -> None:
    site = Site(hosts=hosts, graph=PLAN.graph)
    site.run(35)
    table: Any = site.engine.fleet.tables[Kind.PORT]
    current = SimpleNamespace(incidents=(), nodes=())
    evaluator = SimpleNamespace(engine=site.engine, now=lambda: site.now, current=lambda: current)
    pages = NamedPages(cast(Evaluator, evaluator), tuple)
    lanes = table.cells[table.columns["width"]]
    names, links = table.domains.names["link"], table.domains.ids["link"]
    seen = set()
    for row in range(0, table.n, 5):
        labels, cable = table.labels[row], names[links[row]]
        end = f"{labels['device']}/{labels['port']}" if "swept" in labels else str(table.ids[row])
        before, lanes[row] = lanes[row], 2
        found = asyncio.run(pages.html("cable", cable))
        lanes[row] = before
        assert found is not None
        cell = r"<td class='n'>(\d) lanes</td>"
        shown = re.findall(f"<code>width</code></th>{cell}{cell}", found[1])
        same = [at for at in range(table.n) if links[at] == links[row]]
        own = [str(table.ids[at]) for at in same if "swept" not in table.labels[at]]
        read_by_host = end in own and "swept" in labels
        expected = ["4", "4"] if read_by_host else ["2" if name == end else "4" for name in cable.split(", ")]
        assert [list(one) for one in shown] == [expected], (cable, end)
        seen.add((labels.get("swept", "host"), cable.split(", ").index(end)))
    assert {("switch", 0), ("switch", 1), ("adapter", 0)} <= seen
