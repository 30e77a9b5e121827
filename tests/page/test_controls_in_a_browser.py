"""The controls that no other test of the page clicks, in a real Chromium: colours, the map's table, cards, past
incidents and their time line, links below the page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fabricmon.sim.faults import FAULTS
from tests.page.stage import Stage
from tests.rigs.browser import Browser, Tab

pytestmark = pytest.mark.peer

PORTS = ("host-003/mlx5_2/1", "host-012/mlx5_1/1")
DRAWN = "document.querySelector('#map canvas')?.dataset.drawn"
TITLE = "document.querySelector('#panel:not([hidden]) #panel-title')?.textContent"
ROWS = "document.querySelectorAll('.archive tr.incident').length"


async def overview(tab: Tab, url: str) -> None:
    await tab.open(url)
    await tab.until(DRAWN)


async def colours_and_map(tab: Tab, stage: Stage) -> None:
    await overview(tab, stage.url)
    for name in ("light", "dark", ""):
        await tab.click("#theme")
        await tab.until(f"document.documentElement.dataset.theme === {json.dumps(name)}")
        assert await tab.value("document.querySelector('#theme').textContent") == (name or "auto")
    await tab.click("#map details summary")
    await tab.until("document.querySelectorAll('#map details tbody tr').length === 2")
    await tab.click("#map details tbody a")
    await tab.until("location.hash === '#unit/su0' && document.querySelector('.focused').textContent === 'su0'")
    await tab.click("#map .all")
    await tab.until("location.hash === '' && document.querySelector('.focused').hidden")


async def one_incident(tab: Tab, stage: Stage) -> None:
    await overview(tab, stage.url)
    await tab.until("document.querySelectorAll('article.incident').length === 2")
    await tab.click("article.incident .do a.button")
    title = await tab.until(TITLE)
    assert any(port in title for port in PORTS)
    await tab.click("#panel details.formula summary")
    assert await tab.value("document.querySelector('#panel details.formula').open")
    await tab.click("#panel .shut")
    await tab.until("document.querySelector('#panel').hidden && location.hash === ''")
    await tab.click("article.incident a.runbook")
    await tab.until("location.pathname === '/runbooks/link_down' && document.querySelector('h1') !== null")
    await tab.click("header a[href='.']")
    await tab.until("location.pathname === '/runbooks/'")


async def past_incidents(tab: Tab, stage: Stage) -> None:
    for _ in range(100):  # until both are stored
        await tab.open(f"{stage.url}archive")
        if await tab.value(ROWS) == 2:
            break
        await asyncio.sleep(0.2)
    await overview(tab, stage.url)
    await tab.click(".bar a[href=archive]")
    await tab.until(f"location.pathname === '/archive' && {ROWS} === 2", 20)
    await tab.click(".archive nav a:nth-of-type(3)")  # 7 days
    await tab.until(f"new URLSearchParams(location.search).has('since') && {ROWS} === 2", 20)
    await tab.value("document.querySelector('.archive [name=kind]').focus()")
    await tab.type("link_down")
    await tab.click(".archive form [type=submit]")
    await tab.until(f"location.search.includes('kind=link_down') && {ROWS} === 2", 20)
    await tab.value("document.querySelector('.archive [name=severity]').value = 'critical'")
    await tab.click(".archive form [type=submit]")
    await tab.until(f"location.search.includes('severity=critical') && {ROWS} === 0", 20)
    await tab.open(f"{stage.url}archive")
    await tab.until("document.querySelectorAll('.timeline a').length === 96")
    before = await tab.value("location.search")
    await tab.click(".timeline a:last-of-type")  # the last quarter of an hour
    await tab.until(f"location.search !== {json.dumps(before)} && {ROWS} === 2", 20)
    await tab.click(".archive a.title")
    await tab.until("location.pathname === '/incident' && document.querySelector('.whole figure canvas') !== null")
    await tab.click(".back a")
    await tab.until(DRAWN)


async def below_the_page(tab: Tab, stage: Stage) -> None:
    await overview(tab, stage.url)
    links = await tab.value("[...document.querySelectorAll('.foot a')].map((link) => link.getAttribute('href'))")
    for link in links:
        await overview(tab, stage.url)
        await tab.click(f".foot a[href='{link}']")
        await tab.until(f"location.href === new URL({json.dumps(link)}, {json.dumps(stage.url)}).href")
        await tab.until("document.querySelector('h1') !== null")
    await tab.click("a[href$='/overview']")
    await tab.until("document.contentType === 'application/json'")


async def test_every_other_control(require: Callable[..., str], tmp_path: Path) -> None:
    chromium = require("chromium", "shows the status page")
    stage = Stage(tmp_path, 16, past=400)
    async with stage, Browser(chromium, tmp_path / "profile") as browser:
        stage.strike(FAULTS["link_down"](stage.layout, port) for port in PORTS)
        tab = await browser.tab(1440, 900)
        for walk in (colours_and_map, one_incident, past_incidents, below_the_page):
            await walk(tab, stage)
        assert tab.complaints == []
