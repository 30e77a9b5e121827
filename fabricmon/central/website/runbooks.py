"""Built-in runbooks below /runbooks: as HTML, and as Markdown with ".md" appended to the name.

They show the limits in force and need no internet access. Where `central.links.runbook` names the site's own runbooks,
a request is redirected there.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable

from aiohttp import web

from fabricmon import __version__
from fabricmon.catalogue.kinds import KINDS
from fabricmon.engine.engine import Engine
from fabricmon.notify.links import RUNBOOKS, IncidentLinks
from fabricmon.runbooks.markdown import anchor, render
from fabricmon.runbooks.runbook import index, runbook
from fabricmon.runtime.package_files import runbook_text

ROOT = f"/{RUNBOOKS}/"
SOURCE = ".md"


class RunbookSite:
    """`engine` has the limits in force, `links` the URL of the site's own runbooks."""

    def __init__(self, engine: Engine, links: Callable[[], IncidentLinks]) -> None:
        self._engine, self._links = engine, links

    def add_routes(self, app: web.Application) -> None:
        """Serve below ROOT of an application."""
        app.router.add_get(ROOT.rstrip("/"), self._to_index)
        app.router.add_get(ROOT, self._index)
        app.router.add_get(f"{ROOT}{{name}}", self._runbook)

    async def _to_index(self, request: web.Request) -> web.Response:
        # Relative: the server may be behind a proxy that adds a path.
        raise web.HTTPMovedPermanently(f"{RUNBOOKS}/")

    async def _index(self, request: web.Request) -> web.Response:
        return _page("Runbooks", index())

    async def _runbook(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        kind = name.removesuffix(SOURCE)
        if kind not in KINDS:
            raise web.HTTPNotFound(text=f"no runbook of this name; {ROOT} lists them\n")
        if self._links().runbooks:
            raise web.HTTPFound(self._links().runbook(kind))
        in_force = {state.rule.name: state.params for state in self._engine.rule_states.all}
        text = runbook(kind, runbook_text(kind), in_force)
        if name.endswith(SOURCE):
            return web.Response(text=text, content_type="text/markdown")
        return _page(KINDS[kind].title, text)


def on_site(to: str) -> str:
    """Target of a link in a runbook: another runbook or a place on the page; "" for other documents."""
    page, _, place = to.partition("#")
    if page.startswith(("http://", "https://")) or not page:
        return to
    kind = page.removesuffix(SOURCE)
    return (kind + (f"#{place}" if place else "")) if kind in KINDS else ""


def _contents(text: str) -> str:
    """Links to the headings of a text."""
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
