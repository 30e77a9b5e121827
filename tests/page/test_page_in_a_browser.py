"""The page in a real Chromium: opened and clicked through; an incident comes by itself and is silenced."""

import json

import pytest

from fabricmon.sim.faults import FAULTS
from tests.page.stage import Stage
from tests.rigs.browser import Browser

pytestmark = pytest.mark.peer

CARDS = "document.querySelectorAll('article.incident').length"
PANEL = "document.querySelector('#panel:not([hidden]) #panel-title')?.textContent"


async def nameless(tab):
    """What a person who hears the page would meet without a name."""
    tree = (await tab.send("Accessibility.getFullAXTree"))["nodes"]
    roles = ("button", "link", "textbox", "searchbox", "combobox", "image", "region", "application", "dialog")
    return [
        node["role"]["value"]
        for node in tree
        if not node["ignored"] and node["role"]["value"] in roles and not node.get("name", {}).get("value")
    ]


async def test_somebody_finds_what_is_wrong_and_silences_it(require, tmp_path):
    chromium = require("chromium", "shows the status page")
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    stage, browser = Stage(tmp_path, past=660, token_file=str(token)), Browser(chromium, tmp_path / "profile")
    port = stage.layout.port_name(9 * 8 + 3)
    async with stage, browser:
        tab = await browser.tab()
        await tab.open(stage.url)
        await tab.until("document.querySelector('canvas').dataset.drawn")
        assert await tab.value("document.querySelector('h1').textContent") == "All well"
        assert await tab.value(CARDS) == 0
        assert "64 nodes, 512 ports; none in an incident" in await tab.value(
            "document.querySelector('canvas').getAttribute('aria-label')"
        )

        # an incident comes without a reload, and is said to who does not see it
        await tab.value("window.stays = true")
        stage.strike([FAULTS["link_down"](stage.layout, port)])
        await tab.until(f"{CARDS} === 1")
        assert await tab.value("window.stays")
        assert port in await tab.value("document.getElementById('said').textContent")
        assert port in await tab.value("document.querySelector('article h3').textContent")
        await tab.until("/0 critical, 1 in warning|1 critical, 0/.test(document.querySelector('canvas').ariaLabel)")
        assert await nameless(tab) == []

        # from the incident to its member, to what it counted
        await tab.click("article h3 a")
        title = await tab.until(PANEL)
        assert port in title
        assert "#incident/" in await tab.value("location.hash")
        assert "Evidence for it" in await tab.value("document.querySelector('#panel').innerText")
        await tab.click("#panel .names a")
        assert await tab.until(f"{PANEL} === {json.dumps(port.split('/', 1)[1])}")
        await tab.until("document.querySelectorAll('#panel figure.chart').length > 1")
        await tab.open(stage.url + (await tab.value("location.hash")))  # the link by itself
        assert await tab.until(f"{PANEL} === {json.dumps(port.split('/', 1)[1])}")
        await tab.key("Escape")
        await tab.until("document.querySelector('#panel').hidden")

        # from the map to a node: the square above a column
        await tab.value("document.querySelector('canvas').focus()")
        for key in ("ArrowRight", "ArrowRight", "Enter"):
            await tab.key(key)
        assert (await tab.until(PANEL)).startswith("host-")
        await tab.key("Escape")

        # a search, kept in the address
        await tab.value("document.querySelector('[name=q]').focus()")
        await tab.type("no-such-node")
        await tab.until(f"{CARDS} === 0 && location.search.includes('no-such-node')")
        await tab.value("document.querySelector('[name=q]').select()")
        await tab.type(port.split("/")[0])
        await tab.until(f"{CARDS} === 1")

        # acknowledged, which needs the token
        await tab.click("article [data-acknowledge]")
        await tab.until("!!document.querySelector('dialog[open]')")
        assert await nameless(tab) == []
        await tab.click("dialog [type=submit]")
        await tab.until("document.querySelector('dialog [name=token]').offsetParent !== null")
        await tab.type("s3cret")
        await tab.click("dialog [type=submit]")
        await tab.until("!document.querySelector('dialog')")
        await tab.until("document.querySelector('article.quiet .badge')?.textContent.startsWith('acknowledged')")
        assert next(str(m) for s in stage.central.centre.silences.all() for m in s.matchers).startswith("id=")
        await tab.click("#windows [data-end]")
        await tab.click("dialog [type=submit]")
        await tab.until("!document.querySelector('article.quiet')")

        elsewhere = [address for address in tab.asked if not address.startswith((stage.url, "data:"))]
        assert elsewhere == []
        refused = [text for text in tab.complaints if "401" not in text]  # the one that asked for the token
        assert refused == []
