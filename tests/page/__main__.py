"""`python -m tests.page [NODES ...]`: cost of the page in the browser and on the server, at 1,000 and 10,000 nodes.
`python -m tests.page pictures`: makes the pictures under docs/; fails when one has more than PICTURE bytes.
`python -m tests.page pictures FOLDER [NODES ...]`: every view (views.py), in every size, with many incidents.
`python -m tests.page axe PATH`: runs axe-core (PATH of its axe.min.js) on every view. Needs chromium."""

from __future__ import annotations

import asyncio
import gzip
import os
import shutil
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from fabricmon.central.page.map_layout import lay_out_map
from fabricmon.central.page.map_states import map_states
from fabricmon.model import Kind
from fabricmon.sim.faults import FAULTS
from fabricmon.sim.script import InjectedFault
from tests.page.stage import Stage
from tests.page.views import SIZES, jobs_file, lay, places, walk
from tests.rigs.browser import Browser, Tab

DOCS = Path(__file__).resolve().parents[2] / "docs"
PICTURE = 300_000  # bytes
PAST = 3600.0  # seconds of history behind the pictures

# Time between two frames while the pointer moves over the map, of 120 frames.
FRAMES = """new Promise((done) => {
  const canvas = document.querySelector('canvas'), box = canvas.getBoundingClientRect(), frames = [];
  let last = 0, count = 0;
  function step(at) {
    if (last) frames.push(at - last);
    last = at;
    const x = box.x + (count * 37) % box.width, y = box.y + (count * 53) % Math.min(box.height, 600);
    canvas.dispatchEvent(new PointerEvent('pointermove', {clientX: x, clientY: y, bubbles: true}));
    if (++count < 120) requestAnimationFrame(step); else done(frames);
  }
  requestAnimationFrame(step);
})"""
DRAWS = """(() => {
  const canvas = document.querySelector('canvas'), found = [];
  for (let i = 0; i < 21; i++) { document.dispatchEvent(new Event('theme')); found.push(Number(canvas.dataset.drawn)); }
  return found;
})()"""


def faults(stage: Stage, nodes: int) -> list[InjectedFault]:
    """A bad morning."""
    layout = stage.layout
    leaf = layout.leaf_name(layout.leaves[2])
    return [
        FAULTS["leaf_down"](layout, leaf),
        FAULTS["link_down"](layout, layout.port_name((nodes - 3) * 8 + 5)),
        FAULTS["link_flap"](layout, layout.port_name((nodes // 2 + 7) * 8 + 1), 0.0, (0.0, 12.0, 24.0), 3.0),
        FAULTS["host_crash"](layout, layout.hosts[nodes // 2 + 12]),
    ]


async def asked(url: str) -> tuple[float, int, int]:
    """Seconds, bytes and compressed bytes of an answer."""

    def get() -> tuple[float, int, int]:
        began = time.perf_counter()
        with urllib.request.urlopen(url, timeout=60) as answer:
            body = answer.read()
        return time.perf_counter() - began, len(body), len(gzip.compress(body, 6))

    return await asyncio.get_running_loop().run_in_executor(None, get)


async def measure(browser: Browser, folder: Path, nodes: int) -> None:
    print(f"\n{nodes:,} nodes, {nodes * 8:,} ports")
    began = time.monotonic()
    stage = Stage(folder, nodes, poll=max(1.0, nodes / 400))
    async with stage:
        stage.strike(faults(stage, nodes))
        while len([i for i in stage.central.engine.incidents() if i.status == "firing"]) < 3:
            await asyncio.sleep(0.5)
            if time.monotonic() - began > 300:
                break
        for path in ("page/live", "page/plan", "page/health"):
            seconds, size, packed = await asked(stage.url + path)
            print(f"  {path:<12}  {size / 1000:8.1f} kB, {packed / 1000:6.1f} kB compressed; answered in "
                  f"{seconds * 1000:.0f} ms by a process that simulates the fabric too")  # fmt: skip
        engine = stage.central.engine
        before = time.process_time()
        made = lay_out_map(list(engine.fleet.nodes), engine.fleet.tables[Kind.PORT], engine.topology())
        planned = time.process_time()
        _, _, views, incidents = stage.central.evaluator.current()
        opened_at = time.process_time()
        map_states(made, engine.fleet, views, incidents, engine.symptoms(), stage.central.evaluator.now())
        print(f"  processor time: plan {(planned - before) * 1000:.0f} ms, only when nodes or cables changed; health "
              f"{(time.process_time() - opened_at) * 1000:.1f} ms a second with the page open")  # fmt: skip
        kept = stage.central.history
        began = time.perf_counter()
        kept.record(stage.central.evaluator.now())
        took = (time.perf_counter() - began) * 1000
        print(f"  history       {kept.trail.nbytes / 1e6:8.1f} MB of all ports, {kept.closeup.followed} components "
              f"followed in {kept.closeup.series} series, recording takes {took:.1f} ms")  # fmt: skip
        tab = await browser.tab(1440, 1000)
        await tab.open("about:blank")
        opened = time.monotonic()
        await tab.open(stage.url)
        await tab.until("document.querySelector('canvas').dataset.drawn", 120)
        shown = time.monotonic() - opened
        paint = await tab.value("performance.getEntriesByType('paint').map(p => [p.name, p.startTime])")
        for name, at in paint:
            print(f"  {name:<24} {at:8.0f} ms")
        print(f"  map drawn                {shown * 1000:8.0f} ms")
        draws = await tab.value(DRAWS)
        cell = await tab.value("document.querySelector('canvas').dataset.cell")
        print(f"  one drawing of the map   {statistics.median(draws):8.1f} ms median, {max(draws):.1f} at most, "
              f"cells of {cell} px")  # fmt: skip
        frames = sorted(await tab.value(FRAMES))
        late = frames[int(len(frames) * 0.95)]
        print(f"  frame while pointing     {statistics.median(frames):8.1f} ms median, {late:.1f} at 95 %, "
              f"{frames[-1]:.1f} at most")  # fmt: skip
        elements = await tab.value("document.querySelectorAll('*').length")
        heap = await tab.value("performance.memory ? performance.memory.usedJSHeapSize / 1e6 : 0")
        print(f"  elements                 {elements:8}, script memory {heap:.1f} MB")
        print(f"  complaints {tab.complaints}, asked elsewhere {[a for a in tab.asked if not a.startswith(stage.url)]}")
        await tab.picture(folder / f"page-{nodes}.png")
        shutil.copy(folder / f"page-{nodes}.png", Path(tempfile.gettempdir()) / f"fabricmon-page-{nodes}.png")


async def settled(tab: Tab) -> None:
    await tab.until("document.querySelector('canvas').dataset.drawn")
    await asyncio.sleep(1.2)


async def pictures(browser: Browser, folder: Path) -> int:
    """The pictures of the documents, of a fabric of 128 nodes on a bad morning."""
    stage = Stage(folder, 128, past=PAST)
    leaf, down, flap, crash = faults(stage, 128)
    stage.then = {1500.0: [flap], 1100.0: [FAULTS["link_errors"](stage.layout, stage.layout.port_name(71 * 8 + 1))],
                  240.0: [leaf, down], 150.0: [crash]}  # fmt: skip
    made = []
    async with stage:
        await asyncio.sleep(12)
        incident = next(i for i in stage.central.engine.incidents() if i.component.startswith("leaf"))
        port = next(i for i in stage.central.engine.incidents() if i.kind == "link_flapping").parts[0]
        node, name = port.split("/", 1)
        for file, where, size, dark, phone in (
            ("page.png", "", (1360, 940), False, False),
            ("page-dark.png", f"#incident/{incident.id}", (1360, 940), True, False),
            ("page-component.png", f"#port/{node}/{name}", (1360, 940), False, False),
            ("page-phone.png", "", (390, 844), False, True),
        ):
            tab = await browser.tab(*size, dark=dark, phone=phone)
            await tab.open(stage.url + where)
            await settled(tab)
            await tab.value("scrollTo(0, 0)")
            await tab.picture(DOCS / file)
            made.append(DOCS / file)
            assert tab.complaints == [], tab.complaints
    for file in made:
        print(f"{file.name}  {file.stat().st_size / 1000:.0f} kB")
    return int(any(file.stat().st_size > PICTURE for file in made))


async def morning(folder: Path, nodes: int) -> Stage:
    """A stage with the bad morning behind it, two jobs and errors on a link."""
    stage = Stage(folder, nodes, poll=max(1.0, nodes / 400), past=900.0 if nodes < 1000 else 60.0,
                  jobs=jobs_file(folder, nodes))  # fmt: skip
    _, down, flap, crash = faults(stage, nodes)
    stage.then = {800.0: [flap], 700.0: [FAULTS["link_errors"](stage.layout, stage.layout.port_name(9 * 8 + 1))],
                  60.0: [down, crash]}  # fmt: skip
    return stage


async def views(browser: Browser, folder: Path, into: Path, sizes: Sequence[int]) -> int:
    """Every view in every size, those of incidents with 0, 3, 43 and 400 of them; with so many nodes."""
    into.mkdir(parents=True, exist_ok=True)
    complaints: list[str] = []
    for nodes in sizes:
        stage = await morning(folder / str(nodes), nodes)
        async with stage:
            await asyncio.sleep(5 if nodes == 64 else 60)
            named = places(stage)
            async for size, view, tab in walk(stage, browser, tuple(SIZES), named, counting=False):
                await tab.picture(into / f"{nodes}-{view.name}-{size}.png")
                complaints += [f"{view.name}: {one}" for one in tab.complaints if "404" not in one]
            for number in (0, 3, 43, 400):
                lay(stage, number)
                async for size, view, tab in walk(stage, browser, tuple(SIZES), named, counting=True):
                    await tab.picture(into / f"{nodes}-{view.name}-{number}-{size}.png")
                    complaints += [f"{view.name}: {one}" for one in tab.complaints]
    print(f"{len(list(into.glob('*.png')))} pictures in {into}", *dict.fromkeys(complaints), sep="\n  ")
    return int(bool(complaints))


async def axe(browser: Browser, folder: Path, program: str) -> int:
    """What axe-core finds in every view, in light and dark colours and on a phone."""
    found, seen = 0, 0
    stage = await morning(folder, 64)
    async with stage:
        await asyncio.sleep(20)
        named = places(stage)
        async for size, view, tab in walk(stage, browser, tuple(SIZES), named):
            await tab.value(program + "; 1")
            rules = await tab.value("axe.run().then(r => r.violations.map(v => [v.id, v.impact, v.help, "
                                    "v.nodes.slice(0, 4).map(n => n.html.slice(0, 160))]))")  # fmt: skip
            seen += 1
            for rule in rules:
                print(f"{size} {view.name}", *rule, sep="\n      ")
            found += len(rules)
    print(f"{seen} views, {found} violations")
    return int(found > 0)


async def main(words: list[str]) -> int:
    chromium = shutil.which("chromium")
    if chromium is None:
        print("needs chromium", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="fabricmon-page-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        async with Browser(chromium, folder / "profile") as browser:
            if words[:1] == ["pictures"]:
                if len(words) > 1:
                    return await views(browser, folder, Path(words[1]), list(map(int, words[2:])) or [64, 10_000])
                return await pictures(browser, folder)
            if words[:1] == ["axe"]:
                return await axe(browser, folder, Path(words[1]).read_text())
            version = await browser.version()
            print(f"{version}, no graphics processor, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
            for nodes in [int(word) for word in words] or [1000, 10_000]:
                await measure(browser, folder / str(nodes), nodes)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
