"""The table of incidents in a real Chromium: order, groups, filters by address, selection, what is new, on a phone."""

import time

import pytest
from msgspec.structs import replace

from tests.page.many import many_incidents
from tests.page.stage import Stage
from tests.rigs.browser import Browser

pytestmark = pytest.mark.peer

ROWS = "[...document.querySelectorAll('tr.incident')].map((row) => row.dataset.id)"
NUMBER = "document.querySelectorAll('tr.incident').length"
CHOSEN = "document.querySelectorAll('tr.incident input:checked').length"
COVERS = "document.querySelector('dialog .covers')?.textContent"
CHANGED = "{}.dispatchEvent(new Event('input', {{bubbles: true}}))"
# Places in which the map lies over another section, at each scroll position.
OVERLAPS = """(async () => {
  const map = document.querySelector('#map'), found = [];
  for (let y = 0; y < document.documentElement.scrollHeight; y += 200) {
    scrollTo(0, y);
    await new Promise(requestAnimationFrame);
    const a = map.getBoundingClientRect();
    for (const other of document.querySelectorAll('#live > *, .bar, .foot')) {
      const b = other.getBoundingClientRect();
      if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1)
        found.push([y, other.id]);
    }
  }
  scrollTo(0, 0);
  return found;
})()"""  # noqa: E501


def lay(stage, number):
    """Made-up incidents instead of those of the engine, half as many resolved ones beside them."""
    made = many_incidents(stage.layout, number, time.time())
    over = [replace(i, id=f"over{i.id}", status="resolved", resolved=time.time() - 60) for i in made[: number // 2]]
    stage.central.engine.incidents = lambda: [*made, *over]
    stage.central.evaluator.replan()
    return made


async def test_find_sort_group_and_act_on_many(require, tmp_path):
    chromium = require("chromium", "shows the status page")
    stage, browser = Stage(tmp_path), Browser(chromium, tmp_path / "profile")
    async with stage, browser:
        made = lay(stage, 43)
        acknowledged = stage.central.evaluator.acknowledgements.by_incident
        tab = await browser.tab(1440, 900)
        await tab.open(stage.url)
        await tab.until("document.querySelector('canvas').dataset.drawn")
        assert await tab.value(OVERLAPS) == []
        await tab.click(".choose a[href*='view=table']")
        await tab.until(f"{NUMBER} === 43")
        assert "view=table" in await tab.value("location.search")

        # by a column, the other way round, and back with the browser's button
        await tab.click("th.c-since a")
        await tab.until("location.search.includes('sort=since')")
        newest = [i.id for i in reversed(made)]
        await tab.until(f"{ROWS}[0] === '{newest[0]}'")
        assert await tab.value(ROWS) == newest
        await tab.until("document.activeElement.closest?.('th.c-since') !== null")  # the focus stays
        await tab.key("Enter")
        await tab.until(f"{ROWS}[0] === '{newest[-1]}'")
        await tab.value("history.back()")
        await tab.until(f"{ROWS}[0] === '{newest[0]}'")

        # filters, each in the address; a link opened anew shows the same
        for name, value in (("rail", "3"), ("kind", "link_down"), ("severity", "critical"), ("job", "train-0#470")):
            select = f"document.querySelector('[name={name}]')"
            await tab.value(f"{select}.value = '{value}'; {CHANGED.format(select)}")
            await tab.until(f"location.search.includes('{name}=') && {NUMBER} < 43 && {NUMBER} > 0 || !{NUMBER}")
        await tab.until("/ of 43/.test(document.querySelector('#open h2').textContent)")
        address, rows = await tab.value("location.href"), await tab.value(ROWS)
        await tab.open("about:blank")
        await tab.open(address)
        await tab.until("document.querySelector('canvas').dataset.drawn")
        assert await tab.value(ROWS) == rows
        assert await tab.value("document.querySelector('[name=rail]').value") == "3"
        leaf = stage.layout.leaf_name(stage.layout.leaves[3])
        await tab.open(f"{stage.url}?view=table&leaf={leaf}&host=host-0")
        inside = [i.id for i in made if i.parts[0].split("/")[1] == "mlx5_3" and int(i.parts[0][5:8]) < 32]
        await tab.until(f"{NUMBER} === {len(inside)}")
        assert sorted(await tab.value(ROWS)) == sorted(inside)

        # groups, and a selection by keyboard that outlives an update
        await tab.open(f"{stage.url}?view=table&group=kind")
        await tab.until(f"{NUMBER} === 43")
        assert await tab.value("document.querySelectorAll('tr.group').length") == 5
        await tab.value("document.querySelector('tbody input[data-group]').focus()")
        await tab.send("Input.dispatchKeyEvent", type="keyDown", key=" ", code="Space", text=" ")
        await tab.send("Input.dispatchKeyEvent", type="keyUp", key=" ", code="Space")
        first = await tab.until(CHOSEN)
        assert first == await tab.value("document.querySelector('tbody').querySelectorAll('tr.incident').length")
        lay(stage, 44)
        await tab.until(f"{NUMBER} === 44")
        assert await tab.value(CHOSEN) == first
        assert await tab.value("document.querySelector('#bulk b').textContent") == f"{first} selected"
        assert await tab.value("document.querySelector('[data-group=all]').indeterminate")

        # acknowledge them, after what it covers
        await tab.click("[data-bulk=acknowledge]")
        await tab.until(f"{COVERS} === 'Covers {first} open incidents now.'")
        await tab.value("document.querySelector('dialog [name=author]').value = 'mara'")
        await tab.click("dialog [type=submit]")
        await tab.until("!document.querySelector('dialog')")
        assert len(acknowledged) == first
        await tab.until(f"document.querySelectorAll('.badge.acknowledged').length === {first}")

        # silence all: exactly these, or what they have in common, with what else it covers
        await tab.click("[data-bulk=none]")
        assert await tab.value(CHOSEN) == 0
        await tab.click("tbody tr.incident:nth-of-type(2) input")
        await tab.click("tbody tr.incident:nth-of-type(3) input")
        await tab.click("[data-bulk=silence]")
        await tab.until(f"{COVERS} === 'Covers 2 open incidents now.'")
        select = "document.querySelector('dialog [name=proposal]')"
        await tab.value(f"{select}.selectedIndex = 1; {select}.dispatchEvent(new Event('change', {{bubbles: true}}))")
        await tab.until(f"{COVERS} === 'Covers {first} open incidents now, {first - 2} of them not selected.'")
        await tab.click("dialog [type=submit]")
        await tab.until(f"document.querySelectorAll('.badge.silenced').length === {first}")
        (silence,) = stage.central.evaluator.silences.all()
        assert [str(m) for m in silence.matchers] == ["kind=link_down"]
        assert tab.complaints == []


async def test_what_is_new_is_marked_until_it_was_seen(require, tmp_path):
    chromium = require("chromium", "shows the status page")
    stage, browser = Stage(tmp_path), Browser(chromium, tmp_path / "profile")
    new = "[...document.querySelectorAll('.badge.new')].filter((badge) => !badge.hidden).length"
    async with stage, browser:
        lay(stage, 12)  # one a minute
        tab = await browser.tab(390, 844, phone=True)
        await tab.open(stage.url)
        await tab.until("document.querySelector('canvas').dataset.drawn")
        assert await tab.value(new) == 0, "of a first look nothing is new"
        away = "localStorage.setItem('left', Date.now() - 210000); localStorage.setItem('seen', Date.now() - 210000)"
        for view in ("", "?view=table"):
            await tab.open(stage.url + "static/icon.svg")
            await tab.value(away)
            await tab.open(stage.url + view)
            await tab.until(f"{new} === 3")
            assert await tab.value("document.querySelector('#news').textContent") == "3 new"
            assert (await tab.value("document.title")).startswith("(3 new) ")
            assert await tab.value("document.documentElement.scrollWidth") == 390
        await tab.click("#news")
        await tab.until(f"{new} === 0 && document.querySelector('#news').hidden")
        assert not (await tab.value("document.title")).startswith("(")
        lay(stage, 13)
        await tab.open(stage.url + "?view=table")
        await tab.until(f"{NUMBER} === 13")
        assert await tab.value(new) == 0
        assert [text for text in tab.complaints if "favicon.ico" not in text] == []  # of the icon as a page
