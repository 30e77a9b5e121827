"""Asking a centre's API from the command line: where it is, its token, and its errors as one line."""

from __future__ import annotations

import argparse
import getpass
import json
import os
import urllib.error
import urllib.request
from typing import Any

TIMEOUT = 10.0  # seconds
MAX_ANSWER = 64 << 20  # bytes
DEFAULT = "http://127.0.0.1:9791"


class RemoteError(Exception):
    """The centre could not be asked, or refused; the text is one line for a person."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which centre, and how one is let in."""
    parser.add_argument(
        "--central",
        metavar="URL",
        default=os.environ.get("FABRICMON_CENTRAL", DEFAULT),
        help=f"the centre (default $FABRICMON_CENTRAL or {DEFAULT})",
    )
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        default=os.environ.get("FABRICMON_TOKEN_FILE", ""),
        help="bearer token for changes (default $FABRICMON_TOKEN_FILE)",
    )
    parser.add_argument("--json", action="store_true", help="print the centre's answer as JSON")


def author() -> str:
    """Who runs this command."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def ask(args: argparse.Namespace, method: str, path: str, body: Any = None) -> dict[str, Any]:
    """The centre's JSON answer. RemoteError for everything else."""
    url = args.central if "://" in args.central else f"http://{args.central}"
    headers = {"Content-Type": "application/json"}
    if args.token_file:
        try:
            with open(args.token_file, encoding="utf-8") as file:
                headers["Authorization"] = f"Bearer {file.read(65536).strip()}"
        except (OSError, UnicodeError) as error:
            raise RemoteError(f"{args.token_file}: {error}") from error
    data = None if body is None else json.dumps(body).encode()
    try:
        request = urllib.request.Request(url.rstrip("/") + path, data=data, method=method, headers=headers)
        # No proxy of the environment: the centre is a machine of this site, and the token is for it alone.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=TIMEOUT) as response:
            answer = json.loads(response.read(MAX_ANSWER))
    except urllib.error.HTTPError as error:
        raise RemoteError(_reason(error)) from error
    except (OSError, ValueError) as error:
        raise RemoteError(f"{url}: {getattr(error, 'reason', None) or error}") from error
    if not isinstance(answer, dict):
        raise RemoteError(f"{url}: that is no fabricmon centre")
    return answer


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        said = json.loads(error.read(65536))["error"]
    except (ValueError, KeyError, TypeError, OSError):
        return f"HTTP {error.code} {error.reason}"
    return str(said)
