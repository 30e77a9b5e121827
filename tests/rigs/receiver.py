"""A webhook receiver that keeps every post with its time: `python -m tests.rigs.receiver PORT FILE`.

A process of its own, so that it can live in another network namespace than the test. One JSON line a post: `at` is the
system's monotonic clock, which all processes of the machine share.
"""

from __future__ import annotations

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


def posts(file: Path) -> list[dict[str, Any]]:
    """What the receiver that writes `file` has got so far; a line it is still writing is not yet there."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]


def serve(port: int, file: Path) -> None:
    output = file.open("a", buffering=1)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            at = time.monotonic()
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            output.write(json.dumps({"at": at, "headers": dict(self.headers), "body": body}) + "\n")
            self.send_response(204)
            self.end_headers()

        def do_GET(self) -> None:
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """One line a post is in the file already."""

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    serve(int(sys.argv[1]), Path(sys.argv[2]))
