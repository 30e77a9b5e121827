"""The page in a real Chromium: opened and clicked through; an incident comes by itself, is taken on and silenced."""

import json

import aiohttp
import pytest

from fabricmon.sim.faults import FAULTS
from tests.page.stage import Stage
from tests.rigs.browser import Browser

pytestmark = pytest.mark.peer

CARDS = "document.querySelectorAll('article.incident').length"
BADGES = "[...document.querySelectorAll('article .badge:not(.new)')].map((badge) => badge.textContent).join()"
CHART = "document.querySelector('#panel figure .box')"
PANEL = "document.querySelector('#panel:not([hidden]) #panel-title')?.textContent"


async def nameless(tab):
    """Controls that a screen reader finds without a name."""
    tree = (await tab.send("Accessibility.getFullAXTree"))["nodes"]
    roles = ("button", "link", "textbox", "searchbox", "combobox", "image", "region", "application", "dialog")
    return [
        node["role"]["value"]
        for node in tree
        if not node["ignored"] and node["role"]["value"] in roles and not node.get("name", {}).get("value")
    ]


async def test_find_acknowledge_and_silence_an_incident(require, tmp_path):
    chromium = require("chromium", "shows the status page")
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    stage, browser = Stage(tmp_path, past=660, token_file=str(token)), Browser(chromium, tmp_path / "profile")
    port = stage.layout.port_name(9 * 8 + 3)
    async with stage, browser:
        tab = await browser.tab()
        await tab.open(stage.url)
        await tab.until("document.querySelector('canvas').dataset.drawn")
        assert await tab.value("document.querySelector('h1').textContent") == "OK"
        assert await tab.value(CARDS) == 0
        assert "64 nodes, 512 ports; none in an incident" in await tab.value(
            "document.querySelector('canvas').getAttribute('aria-label')"
        )

        # an incident comes without a reload, and is said to who does not see it
        await tab.value("window.stays = true")
        stage.strike([FAULTS["link_down"](stage.layout, port)])
        await tab.until(f"{CARDS} === 1")
        assert await tab.value("window.stays")
        assert port in await tab.value("document.getElementById('status').textContent")
        assert port in await tab.value("document.querySelector('article h3').textContent")
        await tab.until("/0 critical, 1 in warning|1 critical, 0/.test(document.querySelector('canvas').ariaLabel)")
        assert await nameless(tab) == []

        # from the incident to its member, to what it counted
        await tab.click("article h3 a")
        title = await tab.until(PANEL)
        assert port in title
        assert "#incident/" in await tab.value("location.hash")
        assert "evidence" in (await tab.value("document.querySelector('#panel').innerText")).lower()
        await tab.click("#panel .names a[href^=component]")
        assert await tab.until(f"{PANEL} === {json.dumps(port.split('/', 1)[1])}")
        await tab.until("document.querySelectorAll('#panel figure.chart canvas').length > 1")
        assert await nameless(tab) == []
        await tab.value(f"{CHART}.focus()")
        latest = await tab.value(f"{CHART}.ariaValueText")
        await tab.key("Home")
        first = await tab.value(f"{CHART}.ariaValueText")
        assert first != latest
        assert await tab.value(f"{CHART}.ariaValueNow") == "0"
        assert first.startswith(await tab.value("document.querySelector('#panel figure .reading').textContent"))
        numbers = [190.2e9 / 8, 100.0e9 / 8, 20.04e9 / 8, 1.5e9 / 8, 0]
        series = {"unit": "bytes/s", "scale": "linear", "points": [[0, n] for n in numbers]}
        assert await tab.value(
            f"import('./static/units.js').then((u) => {{ const s = u.scaleOf({json.dumps(series)});"
            f" return {numbers}.map((n) => u.shown(s.of(n), s)); }})"
        ) == ["190 Gb/s", "100 Gb/s", "20 Gb/s", "1.5 Gb/s", "0 Gb/s"]
        await tab.click("#panel [data-days]")
        await tab.until("document.querySelector('#panel .charts > .note').textContent.includes('the day before')")
        await tab.click("#panel [data-days]")
        await tab.until("document.querySelectorAll('#panel figure.chart canvas').length > 1")
        csv = await tab.value("fetch(document.querySelector('#panel a[download]').href).then((found) => found.text())")
        assert csv.startswith("time,series,unit,value\n20")
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

        # acknowledge with the keyboard alone; needs a name and the token
        server = stage.central.evaluator
        await tab.value("document.querySelector('article [data-acknowledge]').focus()")
        await tab.key("Enter")
        await tab.until("document.activeElement.name === 'author'")
        assert await nameless(tab) == []
        await tab.key("Enter")
        assert await tab.value("document.querySelector('dialog [name=author]').validity.valueMissing")
        await tab.type("mara")
        await tab.key("Enter")
        await tab.until("document.activeElement.name === 'token'")
        assert await tab.value("document.querySelector('dialog [role=alert]').textContent") == "A token is required."
        assert server.acknowledgements.by_incident == {}
        await tab.type("s3cret")
        await tab.key("Enter")
        await tab.until("!document.querySelector('dialog')")
        await tab.until(f"{BADGES} === 'acknowledged by mara'")
        (taken,) = server.acknowledgements.by_incident.values()
        assert (taken.author, server.silences.all()) == ("mara", [])
        assert await tab.value("document.getElementById('status').textContent") == "Acknowledged."
        await tab.until("document.activeElement.dataset.withdraw")  # the focus is where it was

        # remove the acknowledgement; then another person acknowledges through the API
        await tab.key("Enter")
        await tab.until("document.activeElement.type === 'submit'")
        await tab.key("Enter")
        await tab.until(f"{BADGES} === ''")
        assert server.acknowledgements.by_incident == {}
        async with aiohttp.ClientSession(headers={"Authorization": "Bearer s3cret"}) as session:
            taking = f"{stage.url}api/v1/incidents/{taken.incident}/acknowledgement"
            async with session.post(taking, json={"author": "jon"}) as answer:
                assert answer.status == 201
        await tab.until(f"{BADGES} === 'acknowledged by jon'")

        # two people remove it: the second gets an error
        await tab.click("article [data-withdraw]")
        await tab.until("!!document.querySelector('dialog[open]')")
        await server.acknowledgements.withdraw(taken.incident)
        await tab.click("dialog [type=submit]")
        assert "it is not acknowledged" in await tab.until("document.querySelector('dialog [role=alert]').textContent")
        await tab.click("dialog [type=button]")

        # a silence, ended from the page
        await tab.click("article [data-silence]")
        component = json.dumps(f"component={stage.central.engine.incidents()[0].component}")
        assert await tab.value(f"document.querySelector('dialog textarea').value.includes({component})")
        await tab.click("dialog [type=submit]")
        await tab.until(f"{BADGES} === 'silenced by mara'")
        assert server.acknowledgements.by_incident == {}
        await tab.click("#windows [data-end]")
        await tab.click("dialog [type=submit]")
        await tab.until(f"{BADGES} === ''")

        elsewhere = [address for address in tab.asked if not address.startswith((stage.url, "data:"))]
        assert elsewhere == []
        expected = ("401", "404")  # without a token; what was withdrawn already
        refused = [text for text in tab.complaints if not any(code in text for code in expected)]
        assert refused == []
