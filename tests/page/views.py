"""Every view of the page, for pictures and for axe: where it is, and what must be clicked first."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

from fabricmon.model import Kind
from tests.page.many import many_incidents
from tests.page.stage import Stage
from tests.rigs.browser import Browser, Tab

SIZES = {"wide": (1440, 900, False, False), "dark": (1440, 900, True, False), "phone": (390, 844, False, True)}
"""Width, height, dark colours, a phone."""


class View(NamedTuple):
    """`where`: below the server, with the words of `places`; `click`: a selector; `counts`: it lists incidents."""

    name: str
    where: str
    click: str = ""
    counts: bool = False


VIEWS = (
    View("cards", "", counts=True),
    View("table", "?view=table", counts=True),
    View("groups", "?view=table&group=domain", counts=True),
    View("selected", "?view=table", "[data-group=all]", counts=True),
    View("history", "archive", counts=True),
    View("load", "?map=load"),
    View("errors", "?map=errors"),
    View("unit-on-map", "#unit/{unit}"),
    View("incident", "#incident/{incident}"),
    View("incident-alone", "incident?id={incident}"),
    View("node", "#node/{node}"),
    View("port", "#port/{port}"),
    View("gpu", "component?kind=gpu&node={node}&name=gpu0"),
    View("pcie", "component?kind=pcie&node={node}&name={pcie}"),
    View("nic", "#about/nic/{nic}"),
    View("cable", "#about/cable/{cable}"),
    View("leaf", "#about/leaf/{leaf}"),
    View("switch", "#about/switch/{switch}"),
    View("spine", "#about/switch/{spine}"),
    View("rail", "#about/rail/{rail}"),
    View("unit", "#about/unit/{unit}"),
    View("job", "#about/job/{job}"),
    View("power", "#about/power/{power}"),
    View("dialog", "", "[data-silence]"),
    View("runbooks", "runbooks/"),
    View("runbook", "runbooks/link_errors"),
    View("probes", "probes"),
    View("operations", "operations"),
    View("missing", "node?name=nothing"),
)


def jobs_file(folder: Path, nodes: int) -> dict[str, list[str]]:
    """The setting of a file with two jobs."""
    hosts = [f"host-{at:03d}" for at in range(nodes)]
    half = nodes // 2
    made = [{"id": "4711", "name": "train-70b", "user": "mara", "nodes": hosts[:half]},
            {"id": "4712", "name": "eval", "user": "jon", "nodes": hosts[half : half + 4]}]  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "jobs.json"
    file.write_text(json.dumps({"jobs": made}))
    return {"files": [str(file)]}


def lay(stage: Stage, number: int) -> None:
    """Made-up incidents instead of those of the engine, half as many resolved ones beside them."""
    made = many_incidents(stage.layout, number, time.time())
    stage.central.engine.incidents = lambda: made  # type: ignore[method-assign]
    stage.central.evaluator.replan()


def places(stage: Stage) -> dict[str, str]:
    """What the addresses of VIEWS name: an incident and the port of it, and what that port is in."""
    engine = stage.central.engine
    table = engine.fleet.tables[Kind.PORT]
    firing = [i for i in engine.incidents() if i.status == "firing"]
    port = next((i.parts[0] for i in firing if i.kind in ("link_errors", "link_flapping")), str(table.ids[27]))
    node, _, name = port.partition("/")
    row = engine.fleet.nodes[node].rows[Kind.PORT][name]
    domains: Any = table.domains
    named = {domain: domains.names[domain][domains.ids[domain][row]] for domain in
             ("nic", "leaf", "rail", "power", "link")}  # fmt: skip
    leaf, spine = (next(s.name for s in stage.layout.graph.switches.values() if s.level == level) for level in (0, 1))
    return {
        "incident": next((i.id for i in firing if port in i.parts), "none"), "port": port, "node": node,
        "pcie": next(iter(engine.fleet.nodes[node].rows[Kind.PCIE])), "cable": named.pop("link"),
        "unit": named["rail"].partition("/")[0], "switch": leaf, "spine": spine,
        "job": "train-70b#4711", **named,
    }  # fmt: skip


async def walk(
    stage: Stage, browser: Browser, sizes: tuple[str, ...], named: dict[str, str], counting: bool | None = None
) -> AsyncIterator[tuple[str, View, Tab]]:
    """Each view in each size, settled. counting: only views that list incidents (True), or all others (False)."""
    for size in sizes:
        width, height, dark, phone = SIZES[size]
        tab = await browser.tab(width, height, dark=dark, phone=phone)
        for view in VIEWS:
            if counting is not None and view.counts is not counting:
                continue
            await tab.open("about:blank")
            await tab.open(stage.url + view.where.format(**named))
            await settle(tab)
            if view.click and await tab.value(f"document.querySelector({json.dumps(view.click)}) !== null"):
                await tab.click(view.click)
                await asyncio.sleep(0.3)
            yield size, view, tab
        await tab.close()


async def settle(tab: Tab) -> None:
    """Wait until map and charts are drawn."""
    await tab.until("!document.querySelector('#map canvas') || document.querySelector('#map canvas').dataset.drawn || "
                    "document.querySelector('#map')?.hidden")  # fmt: skip
    await asyncio.sleep(1.0)
