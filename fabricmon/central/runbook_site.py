"""The centre's own runbooks below /runbooks: as pages, and with ".md" behind the name as the Markdown they are made of.

They need nothing from outside, so a site without a way out has them, with the limits that are in force here. Where the
configuration names a site's own runbooks (`central.links.runbook`), a page leads there instead.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable

from aiohttp import web

from fabricmon import __version__
from fabricmon.central.centre import Engine
from fabricmon.notify.links import RUNBOOKS, Links
from fabricmon.runbooks import KINDS, written
from fabricmon.runbooks.chapter import index, runbook
from fabricmon.runbooks.markdown import anchor, render

ROOT = f"/{RUNBOOKS}/"
SOURCE = ".md"


class RunbookSite:
    """`engine` has the limits in force, `links` where the site has runbooks of its own."""

    def __init__(self, engine: Engine, links: Callable[[], Links]) -> None:
        self._engine, self._links = engine, links

    def add_routes(self, app: web.Application) -> None:
        """Serve below ROOT of an application."""
        app.router.add_get(ROOT.rstrip("/"), self._to_index)
        app.router.add_get(ROOT, self._index)
        app.router.add_get(f"{ROOT}{{name}}", self._runbook)

    async def _to_index(self, request: web.Request) -> web.Response:
        # Relative, so that it holds behind a proxy that serves the centre below a path of its own.
        raise web.HTTPMovedPermanently(f"{RUNBOOKS}/")

    async def _index(self, request: web.Request) -> web.Response:
        return _page("Runbooks", index())

    async def _runbook(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        kind = name.removesuffix(SOURCE)
        if kind not in KINDS:
            raise web.HTTPNotFound(text=f"no runbook of that name; {ROOT} lists them\n")
        if self._links().runbooks:
            raise web.HTTPFound(self._links().runbook(kind))
        in_force = {judge.rule.name: judge.params for judge in self._engine.judges.all}
        text = runbook(kind, written(kind), in_force)
        if name.endswith(SOURCE):
            return web.Response(text=text, content_type="text/markdown")
        return _page(KINDS[kind], text)


def on_site(to: str) -> str:
    """A link of the text on this site: another runbook, or a place on the same page; documents stay at home."""
    page, _, place = to.partition("#")
    if page.startswith(("http://", "https://")) or not page:
        return to
    kind = page.removesuffix(SOURCE)
    return (kind + (f"#{place}" if place else "")) if kind in KINDS else ""


def _contents(text: str) -> str:
    """Links to the headings of a text, so that somebody in a hurry is where the hands are needed."""
    links = [f'<a href="#{anchor(name)}">{html.escape(name)}</a>' for name in re.findall(r"^## (.+)$", text, re.M)]
    return f'<nav aria-label="on this page">{"".join(links)}</nav>' if links else ""


def _page(title: str, text: str) -> web.Response:
    return web.Response(
        text=f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{html.escape(title)} · fabricmon</title>
<link rel="icon" href="../static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="../static/runbook.css">
</head>
<body>
<header><a href=".."><img src="../static/icon.svg" alt="" width="26" height="26"><b>fabricmon</b></a>
<a href=".">all runbooks</a></header>
{_contents(text)}
<main>
{render(text, on_site)}
</main>
<footer>fabricmon {html.escape(__version__)}</footer>
</body>
</html>
""",
        content_type="text/html",
    )
