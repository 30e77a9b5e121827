"""In a real Chromium: from the map to a leaf, its drawing, a cable and its ends; load and errors on the map."""

import asyncio

import pytest

from fabricmon.sim.faults import FAULTS
from tests.page.stage import Stage
from tests.rigs.browser import Browser

pytestmark = pytest.mark.peer

TITLE = "document.querySelector('#panel:not([hidden]) #panel-title')?.textContent"


async def test_from_the_map_to_a_leaf_and_its_cables(require, tmp_path):
    chromium = require("chromium", "shows the status page")
    stage, browser = Stage(tmp_path, 16), Browser(chromium, tmp_path / "profile")
    async with stage, browser:
        stage.strike([FAULTS["link_down"](stage.layout, "host-003/mlx5_2/1")])
        tab = await browser.tab(1440, 900)
        await tab.open(stage.url)
        await tab.until("document.querySelector('canvas').dataset.drawn")

        # load, then errors, both in the address and as words in the tip
        await tab.click("[data-mode=load]")
        await tab.until("location.search.includes('map=load') && !document.querySelector('[data-scale=load]').hidden")
        await tab.value("document.querySelector('canvas').focus()")
        for key in ("ArrowRight", *("ArrowDown", "ArrowUp") * 20):
            await tab.key(key)  # the load of a port is known some ticks after the start
            if await tab.value("/load: .* %/.test(document.querySelector('.tip').textContent)"):
                break
            await asyncio.sleep(0.25)
        assert await tab.value("/load: .* %/.test(document.querySelector('.tip').textContent)")
        await tab.open(f"{stage.url}?map=errors")
        await tab.until("document.querySelector('[data-mode=errors]').getAttribute('aria-pressed') === 'true'")
        await tab.click("[data-mode='']")
        await tab.until("!location.search.includes('map') && document.querySelector('[data-scale=load]').hidden")

        # the drawing of a leaf: from a box to the node, from a port to its cable
        await tab.open(f"{stage.url}#about/leaf/su0/rail2")
        await tab.until(f"{TITLE} === 'su0/rail2'")
        await tab.until("document.querySelector('#panel line.critical') !== null")
        await tab.click("#panel a.box[href*='host-003']")
        await tab.until(f"{TITLE} === 'host-003'")
        await tab.click("#panel .ports a[href*='mlx5_2']")
        await tab.until(f"{TITLE} === 'mlx5_2/1'")
        await tab.click("#panel .facts a[href*='kind=cable']", 0.1, 0.2)  # its text is on two lines
        await tab.until(f"{TITLE}?.startsWith('host-003/mlx5_2/1, ')")
        assert "#about/cable/" in await tab.value("location.hash")
        assert await tab.value("document.querySelectorAll('#panel .both thead th').length") == 3
        await tab.key("Escape")
        await tab.until("document.querySelector('#panel').hidden")

        # a unit on the map leads to its page
        await tab.open(f"{stage.url}#unit/su0")
        await tab.until("document.querySelector('.focused').textContent === 'su0'")
        await tab.click(".focused")
        await tab.until(f"{TITLE} === 'su0'")
        await asyncio.sleep(0.3)
        assert tab.complaints == []

        # on a phone the map is far below; the address of a unit shows it
        phone = await browser.tab(390, 400, phone=True)
        await phone.open(f"{stage.url}#unit/su0")
        await phone.until("document.getElementById('map').getBoundingClientRect().top < innerHeight")
        await phone.close()
