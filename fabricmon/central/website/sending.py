"""Answers of the page with their digest as ETag, which a browser that has them is not sent again; its static files."""

from __future__ import annotations

import gzip
import hashlib
from importlib import resources

from aiohttp import web
from prometheus_client.exposition import gzip_accepted

from fabricmon.central.api import answers as api
from fabricmon.runtime.http import packed

HTML, JSON = "text/html", "application/json"
ASSETS = {
    "page.css": "text/css",
    "map.css": "text/css",
    "detail.css": "text/css",
    "table.css": "text/css",
    "main.js": "text/javascript",
    "live.js": "text/javascript",
    "morph.js": "text/javascript",
    "map.js": "text/javascript",
    "layout.js": "text/javascript",
    "panel.js": "text/javascript",
    "chart.js": "text/javascript",
    "units.js": "text/javascript",
    "vendor/uPlot.esm.js": "text/javascript",
    "vendor/uPlot.min.css": "text/css",
    "silence.js": "text/javascript",
    "dialog.js": "text/javascript",
    "select.js": "text/javascript",
    "news.js": "text/javascript",
    "theme.js": "text/javascript",
    "times.js": "text/javascript",
    "runbook.css": "text/css",
    "icon.svg": "image/svg+xml",
}
SMALL = 1024  # bytes: smaller answers are not compressed


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:16]


def sent(
    request: web.Request, body: bytes, tag: str, kind: str, status: int = 200, small: bytes | None = None
) -> web.Response:
    """An answer, or 304 where the browser has it. `small`: the packed body; None: it is packed now."""
    headers = {"ETag": f'"{tag}"', "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if status == 200 and f'"{tag}"' in request.headers.get("If-None-Match", ""):
        return web.Response(status=304, headers=headers)
    if len(body) >= SMALL and gzip_accepted(request.headers.get("Accept-Encoding", "")):
        body, headers["Content-Encoding"] = packed(body) if small is None else small, "gzip"
    return web.Response(body=body, status=status, content_type=kind, charset="utf-8", headers=headers)


def add_assets(router: web.UrlDispatcher) -> None:
    """The static files, each packed once."""
    for name, kind in ASSETS.items():
        router.add_get(f"/static/{name}", _asset(name, kind))


def _asset(name: str, kind: str) -> api.Handler:
    data = resources.files("fabricmon.central.page").joinpath("static", name).read_bytes()
    tag, small = digest(data), gzip.compress(data, mtime=0)

    async def serve(request: web.Request) -> web.Response:
        return sent(request, data, tag, kind, small=small)

    return serve
