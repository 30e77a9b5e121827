"""The browser of the tests waits for a page also while another one leaves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import web

from tests.rigs.browser import Browser, PageGone

pytestmark = pytest.mark.peer


async def page(request: web.Request) -> web.Response:
    return web.Response(text=f"<h1>{request.path}</h1>", content_type="text/html")


async def test_a_page_that_leaves_while_it_is_asked_is_no_error(require: Callable[..., str], tmp_path: Path) -> None:
    chromium = require("chromium", "shows the status page")
    app = web.Application()
    app.router.add_get("/{name}", page)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        async with Browser(chromium, tmp_path / "profile") as browser:
            tab = await browser.tab()
            leaves = "location.pathname === '/b' || (location.pathname = '/b', new Promise(() => {}))"
            await tab.open(f"http://127.0.0.1:{port}/a")
            assert await tab.until(leaves, 30.0) is True
            await tab.open(f"http://127.0.0.1:{port}/a")
            with pytest.raises(PageGone):
                await tab.value(leaves)
    finally:
        await runner.cleanup()
