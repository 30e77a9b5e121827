"""Asking a centre's API from the command line: where it is, how one is let in, and its errors as one line."""

from __future__ import annotations

import argparse
import getpass
import json
import os
import time
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, NamedTuple
from urllib.parse import SplitResult, quote, urlsplit

from fabricmon.commands import credentials
from fabricmon.terminal.text import clean

TIMEOUT = 10.0  # seconds for a connection, and without a byte of the answer
MAX_ANSWER = 64 << 20  # bytes
DEFAULT = "http://127.0.0.1:9791"
API = "/api/v1"
UNREACHED = "is its address right (--centre URL or $FABRICMON_CENTRE), and does the centre run there?"


class RemoteError(Exception):
    """The centre could not be asked, or refused; the text is one line for a person. `status` is that of HTTP, 0 where
    there was no answer."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(clean(text))
        self.status = status


class Answer(NamedTuple):
    """What the centre said, and `at`: the wall time at which it did, by its own clock where it tells."""

    body: dict[str, Any]
    at: float


def add_arguments(parser: argparse.ArgumentParser, *, as_json: bool = True) -> None:
    """Which centre, and how one is let in."""
    group = parser.add_argument_group("the centre", "what is not said here is taken from the variable in brackets")
    group.add_argument(
        "--centre",
        "--central",
        dest="central",
        metavar="URL",
        default=os.environ.get("FABRICMON_CENTRE") or os.environ.get("FABRICMON_CENTRAL") or DEFAULT,
        help=f"where it is [FABRICMON_CENTRE], else {DEFAULT}",
    )
    credentials.add_arguments(group, "centre", "FABRICMON_")
    if as_json:
        parser.add_argument("--json", action="store_true", help="print the centre's answer as JSON (docs/api.md)")


def author() -> str:
    """Who runs this command."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def words(text: str) -> str:
    """A part of a path."""
    return quote(text, safe="")


class Client:
    """One connection to a centre, kept open between questions. `url` is its address, without a slash behind it."""

    def __init__(self, args: argparse.Namespace, timeout: float = TIMEOUT) -> None:
        """RemoteError for an address that is none and for files that cannot be read."""
        url: str = args.central if "://" in args.central else f"http://{args.central}"
        self.url = url.rstrip("/")
        self._parts = _parts(self.url)
        self._headers = {"Accept": "application/json", "User-Agent": "fabricmon-cli", **_credentials(args)}
        self._connection = self._open(args, timeout)

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
        """The centre's JSON answer to a path below the API. RemoteError for everything else."""
        headers = dict(self._headers)
        data = None
        if body is not None or method != "GET":
            headers["Content-Type"] = "application/json"
            data = None if body is None else json.dumps(body).encode()
        target = self._parts.path + API + path
        try:
            status, reason, date, content = self._exchange(method, target, data, headers)
        except HTTPException as error:
            raise RemoteError(f"{self.url} does not speak HTTP ({type(error).__name__}): {UNREACHED}") from error
        except OSError as error:
            raise RemoteError(f"no answer from the centre at {self.url} ({_why(error)}): {UNREACHED}") from error
        if len(content) > MAX_ANSWER:
            raise RemoteError(f"{self.url}: the answer has more than {MAX_ANSWER} bytes")
        try:
            answer = json.loads(content)
        except ValueError as error:
            if status >= 400:
                raise RemoteError(f"{self.url}: HTTP {status} {reason}", status) from error
            answer = None
        if status >= 400 and isinstance(answer, dict) and "error" in answer:
            raise RemoteError(_refusal(status, str(answer["error"])), status)
        if status not in (200, 201) or not isinstance(answer, dict):
            raise RemoteError(f"{self.url} is no fabricmon centre (HTTP {status} to {target}): {UNREACHED}", status)
        return Answer(answer, _wall(date))

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
                # a connection that the centre closed while nothing was asked says so at the next question
                if fresh or method != "GET" or isinstance(error, TimeoutError):
                    raise
        raise AssertionError("unreachable")

    def _open(self, args: argparse.Namespace, timeout: float) -> HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        # No proxy of the environment: the centre is a machine of this site, and the token is for it alone.
        if self._parts.scheme == "http":
            return HTTPConnection(host, port or 80, timeout=timeout)
        import ssl

        try:
            context = ssl.create_default_context(cafile=args.ca_file or None)
            if args.cert_file:
                context.load_cert_chain(args.cert_file, args.key_file or None)
        except (OSError, ValueError) as error:
            files = ", ".join(name for name in (args.ca_file, args.cert_file, args.key_file) if name)
            raise RemoteError(f"{files}: {_why(error)}") from error
        return HTTPSConnection(host, port or 443, timeout=timeout, context=context)


def ask(args: argparse.Namespace, method: str, path: str, body: Any = None) -> dict[str, Any]:
    """One question: `Client.ask` of a connection of its own."""
    client = Client(args)
    try:
        return client.ask(method, path, body).body
    finally:
        client.close()


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises for what is no port
    except ValueError as error:
        raise RemoteError(f"{url} is no address of a centre: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise RemoteError(f"{url} is no address of a centre: expected such as http://centre:9791")
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
    reason = getattr(error, "verify_message", "") or getattr(error, "strerror", None) or str(error)
    if getattr(error, "reason", "") == "WRONG_VERSION_NUMBER":
        reason = "it speaks no TLS there: http:// ?"
    return str(reason) or type(error).__name__


def _refusal(status: int, said: str) -> str:
    """What the centre said, and what helps."""
    if status == 401:
        return f"the centre refuses: {said}; give --token-file or --user-file, or their variables (--help)"
    return f"the centre refuses: {said}" if status == 403 else said
