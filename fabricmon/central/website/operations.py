"""The page /operations: what the HTTP API answers, one line an operation, for people. Made once."""

from __future__ import annotations

from aiohttp import web

from fabricmon.central.api.answers import PREFIX
from fabricmon.central.api.operations import OPERATIONS, Operation
from fabricmon.central.page import document
from fabricmon.central.page.markup import e
from fabricmon.central.website.sending import HTML, digest, sent


def add_operations(app: web.Application, fabric: str) -> None:
    """Serve the page."""
    body = document.shell("HTTP API", fabric, operations_page(), "").encode()
    tag = digest(body)

    async def serve(request: web.Request) -> web.Response:
        return sent(request, body, tag, HTML)

    app.router.add_get("/operations", serve)


def operations_page() -> str:
    """The main part of the page."""
    rows = "".join(map(_row, OPERATIONS))
    return (
        '<p class="back"><a href=".">Overview</a></p><section><h1>HTTP API</h1><p>Answers are JSON. '
        f'<a href="{PREFIX[1:]}/openapi.json">OpenAPI description</a> · <a href="metrics">metrics of this server</a> '
        "for Prometheus.</p><div class='wide' tabindex='0' role='region' aria-label='Operations'><table "
        "class='operations'><thead><tr>"
        f"<th>method</th><th>path</th><th>answer</th><th>parameters</th></tr></thead><tbody>{rows}</tbody></table>"
        "</div></section>"
    )


def _row(op: Operation) -> str:
    path = f"<code>{e(PREFIX + op.path)}</code>"
    plain = op.method == "GET" and "{" not in op.path and not any(one.required for one in op.parameters)
    linked = f'<a href="{PREFIX[1:]}{e(op.path)}">{path}</a>' if plain else path
    names = " ".join(f'<code title="{e(one.text)}">{e(one.name)}</code>' for one in op.parameters)
    return f"<tr><td>{op.method}</td><td>{linked}</td><td>{e(op.summary)}</td><td>{names}</td></tr>"
