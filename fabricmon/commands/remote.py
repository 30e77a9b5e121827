"""Requests to the API of the central server from the command line: address, credentials, errors in one line."""

from __future__ import annotations

import argparse
import getpass
import json
import os
import sys
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from functools import wraps
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, NamedTuple
from urllib.parse import SplitResult, quote, urlsplit

from fabricmon.commands import credentials
from fabricmon.forms.plain_json import Undecodable, loose_json
from fabricmon.terminal.fitted_text import clean

TIMEOUT = 10.0  # seconds for a connection, and without a byte of the answer
MAX_ANSWER = 64 << 20  # bytes
DEFAULT = "http://127.0.0.1:9791"
API = "/api/v1"

Run = Callable[[argparse.Namespace], int]
UNREACHED = "check the address (--server URL or $FABRICMON_SERVER) and that `fabricmon central` runs there"


class RemoteError(Exception):
    """A request failed or was refused; the text is one line for a person. `status` is the HTTP status, 0 without an
    answer."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(clean(text))
        self.status = status


class CentralAnswer(NamedTuple):
    """The body of an answer, and `at`: the wall time of the answer by the server's clock, else by this machine's."""

    body: dict[str, Any]
    at: float


def add_arguments(parser: argparse.ArgumentParser, *, as_json: bool = True) -> None:
    """The address of the server and the credentials it asks for; `as_json` adds --json."""
    group = parser.add_argument_group("the server", "defaults come from the environment variables in brackets")
    group.add_argument(
        "--server",
        metavar="URL",
        type=lambda text: text or DEFAULT,
        default=os.environ.get("FABRICMON_SERVER", ""),
        help=f"address of the server [FABRICMON_SERVER], else {DEFAULT}",
    )
    credentials.add_arguments(group, "server", "FABRICMON_")
    if as_json:
        parser.add_argument("--json", action="store_true", help="print the server's answer as JSON (docs/api.md)")


def author() -> str:
    """Name of the user who runs this command."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def answered(command: str, failed: int = 1) -> Callable[[Run], Run]:
    """A decorator for a command's `run`: a RemoteError is printed as one line on stderr, the exit code is `failed`."""

    def wrap(run: Run) -> Run:
        @wraps(run)
        def guarded(args: argparse.Namespace) -> int:
            try:
                return run(args)
            except RemoteError as error:
                print(f"fabricmon {command}: {error}", file=sys.stderr)
                return failed

        return guarded

    return wrap


def print_json(found: Any) -> None:
    """Print `found` as indented JSON."""
    print(json.dumps(found, indent=2, ensure_ascii=False))


def quoted(text: str) -> str:
    """`text` as one part of a URL path."""
    return quote(text, safe="")


class CentralClient:
    """One connection to the server, kept open between requests. `url` is its address, without a slash at the end."""

    def __init__(self, args: argparse.Namespace, timeout: float = TIMEOUT) -> None:
        """RemoteError for an invalid address and for files that cannot be read."""
        self.url = _with_scheme_and_port(args.server).rstrip("/")
        self._parts = _parts(self.url)
        self._headers = {"Accept": "application/json", "User-Agent": "fabricmon-cli", **_credentials(args)}
        self._connection = self._open(args, timeout)

    def get(self, path: str) -> Any:
        """The server's JSON answer to GET of a path below the API. RemoteError for everything else."""
        return self._request("GET", path)[0]

    def request(self, method: str, path: str, body: Any = None) -> CentralAnswer:
        """The server's JSON object to a path below the API. RemoteError for everything else."""
        answer, at = self._request(method, path, body)
        if not isinstance(answer, dict):
            raise RemoteError(f"{self.url} is not a fabricmon server: {UNREACHED}")
        return CentralAnswer(answer, at)

    def _request(self, method: str, path: str, body: Any = None) -> tuple[Any, float]:
        headers = dict(self._headers)
        data = None
        if body is not None or method != "GET":
            headers["Content-Type"] = "application/json"
            data = None if body is None else json.dumps(body).encode()
        target = self._parts.path + API + path
        try:
            status, reason, date, content = self._exchange(method, target, data, headers)
        except HTTPException as error:
            raise RemoteError(f"{self.url} does not answer in HTTP ({type(error).__name__}): {UNREACHED}") from error
        except OSError as error:
            raise RemoteError(f"no answer from the server at {self.url} ({_why(error)}): {UNREACHED}") from error
        if len(content) > MAX_ANSWER:
            raise RemoteError(f"{self.url}: the answer has more than {MAX_ANSWER} bytes")
        try:
            answer = loose_json(content)
        except Undecodable as error:
            if status >= 400:
                raise RemoteError(f"{self.url}: HTTP {status} {reason}", status) from error
            answer = None
        if status >= 400 and isinstance(answer, dict) and "error" in answer:
            raise RemoteError(_refusal(status, str(answer["error"])), status)
        if status not in (200, 201) or not isinstance(answer, dict | list):
            raise RemoteError(f"{self.url} is not a fabricmon server (HTTP {status} to {target}): {UNREACHED}", status)
        return answer, _wall(date)

    def close(self) -> None:
        self._connection.close()

    def _exchange(
        self, method: str, target: str, data: bytes | None, headers: dict[str, str]
    ) -> tuple[int, str, str, bytes]:
        for fresh in (self._connection.sock is None, True):
            try:
                self._connection.request(method, target, data, headers)
                response = self._connection.getresponse()
                date = response.headers.get("Date") or ""
                return response.status, response.reason, date, response.read(MAX_ANSWER + 1)
            except (OSError, HTTPException) as error:
                self._connection.close()
                # an idle connection that the server has closed fails at the next request
                if fresh or method != "GET" or isinstance(error, TimeoutError):
                    raise
        raise AssertionError("unreachable")

    def _open(self, args: argparse.Namespace, timeout: float) -> HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        # No proxy from the environment: the server is on this site, and the token is for it alone.
        if self._parts.scheme == "http":
            return HTTPConnection(host, port or 80, timeout=timeout)
        from fabricmon.web import tls

        try:
            context = tls.client_context(args.ca_file, args.cert_file, args.key_file)
        except ValueError as error:
            raise RemoteError(str(error)) from error
        return HTTPSConnection(host, port or 443, timeout=timeout, context=context)


def request(args: argparse.Namespace, method: str, path: str, body: Any = None) -> dict[str, Any]:
    """The answer to one request, over a connection of its own. RemoteError as of `CentralClient.request`."""
    client = CentralClient(args)
    try:
        return client.request(method, path, body).body
    finally:
        client.close()


def _with_scheme_and_port(address: str) -> str:
    """An address as people type it: "host" is http://host:9791."""
    if "://" in address:
        return address
    host, slash, path = address.partition("/")
    bare = ":" not in host or host.endswith("]")
    return f"http://{host}{':' + DEFAULT.rpartition(':')[2] if bare else ''}{slash}{path}"


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises for what is no port
    except ValueError as error:
        raise RemoteError(f"{url} is not an address of a server: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise RemoteError(f"{url} is not an address of a server: expected, for example, http://fabricmon:9791")
    return parts


def _credentials(args: argparse.Namespace) -> dict[str, str]:
    try:
        return credentials.header(args.token_file, args.user_file)
    except OSError as error:
        raise RemoteError(f"{error.filename}: {_why(error)}") from error
    except ValueError as error:
        raise RemoteError(str(error)) from error


def _wall(date: str) -> float:
    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return time.time()


def _why(error: Exception) -> str:
    distrust = getattr(error, "verify_message", "")
    reason = f"certificate not trusted: {distrust}" if distrust else getattr(error, "strerror", None) or str(error)
    if getattr(error, "reason", "") == "WRONG_VERSION_NUMBER":
        reason = "no TLS on this port; try http://"
    return str(reason) or type(error).__name__


def _refusal(status: int, error: str) -> str:
    if status == 401:
        return f"the server refused: {error}; give --token-file or --user-file, or their variables (--help)"
    return f"the server refused: {error}" if status == 403 else error
