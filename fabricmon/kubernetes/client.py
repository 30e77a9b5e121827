"""A client of a Kubernetes API server over TLS.

The kubelet replaces the files of token and CA of a service account before they expire: the token is read at each
request, the CA when its file changed.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import msgspec

from fabricmon import __version__
from fabricmon.forms.decoding import Undecodable, json_value
from fabricmon.runtime.trust import trusting

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
CLUSTER = "cluster"
"""The API server of the cluster in which this process runs."""

USER_AGENT = f"fabricmon/{__version__}"
MAX_ANSWER = 128 << 20  # bytes of one answer; a page of 500 nodes with all their images has about 10 MiB
MAX_LINE = 8 << 20  # bytes of one watch event; an object of the API has at most about 1.5 MiB
MAX_REFUSAL = 4096  # bytes of an error's body that are read, for the reason
MAX_SECRET = 64 << 10  # bytes of a token; one of a service account has about 1 KiB
CONNECTIONS = 4  # at one time to one server
UNAUTHORIZED, CONFLICT, GONE, LATER = 401, 409, 410, 429


class ApiError(Exception):
    """A failed request or an invalid answer; the text has the reason.

    status       HTTP status, or the code of a Status object; 0 where there was no answer
    retry_after  seconds of Retry-After
    """

    def __init__(self, text: str, status: int = 0, retry_after: float = 0.0) -> None:
        super().__init__(text)
        self.status, self.retry_after = status, retry_after


@dataclass(frozen=True, slots=True)
class Server:
    """Base URL, token file ("" none) and CA file ("" the system's)."""

    url: str
    token_file: str = ""
    ca_file: str = ""


def server(api: str, token_file: str = "", ca_file: str = "", environ: Mapping[str, str] = os.environ) -> Server:
    """The configured server. ApiError for "cluster" outside of a cluster."""
    if api != CLUSTER:
        return Server(api.rstrip("/"), token_file, ca_file)
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ApiError("not inside a cluster: KUBERNETES_SERVICE_HOST is not set")
    where = f"[{host}]" if ":" in host else host
    return Server(f"https://{where}:{port}", token_file or str(ACCOUNT / "token"), ca_file or str(ACCOUNT / "ca.crt"))


def own_namespace() -> str:
    """The namespace of the pod of this process. ApiError outside of a pod."""
    try:
        return (ACCOUNT / "namespace").read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ApiError(f"unknown namespace: {ACCOUNT / 'namespace'}: {error}; set it") from error


class KubernetesClient:
    """Requests to one server. Use from one event loop; `close` it.

    deadline  seconds for one request with its answer
    """

    def __init__(self, server: Server, deadline: float) -> None:
        self.server, self.deadline = server, deadline
        self._session: aiohttp.ClientSession | None = None
        self._trusted: tuple[int, int, int] | None = None

    async def get(self, path: str, query: Mapping[str, str] = {}) -> bytes:
        """GET: the body of the answer."""
        return await self._ask("GET", path, query)

    async def patch(self, path: str, body: bytes, media: str, query: Mapping[str, str] = {}) -> bytes:
        """PATCH with a body of the given media type; returns the changed object."""
        return await self._ask("PATCH", path, query, body, media)

    async def watch(self, path: str, query: Mapping[str, str], silence: float) -> AsyncGenerator[bytes, None]:
        """The lines of a watch until the server ends it. The first one is empty: the watch is established.

        silence  seconds without a byte after which the connection is closed
        """
        limit = aiohttp.ClientTimeout(total=None, sock_connect=self.deadline, sock_read=silence)
        async with self._answer("GET", path, query, limit) as answer:
            yield b""
            rest = bytearray()
            async for chunk in answer.content.iter_any():
                *lines, last = (rest + chunk).split(b"\n") if b"\n" in chunk else [rest + chunk]
                rest = bytearray(last)
                if len(rest) > MAX_LINE:
                    raise ApiError(f"a watch event has more than {MAX_LINE} bytes")
                for line in lines:
                    if line.strip():
                        yield bytes(line)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _ask(
        self, method: str, path: str, query: Mapping[str, str], body: bytes | None = None, media: str = ""
    ) -> bytes:
        limit = aiohttp.ClientTimeout(total=self.deadline)
        async with self._answer(method, path, query, limit, body, media) as answer:
            chunks, size = [], 0
            async for chunk in answer.content.iter_chunked(1 << 20):
                size += len(chunk)
                if size > MAX_ANSWER:
                    raise ApiError(f"answers with more than {MAX_ANSWER} bytes")
                chunks.append(chunk)
            return b"".join(chunks)

    @asynccontextmanager
    async def _answer(
        self, method: str, path: str, query: Mapping[str, str], limit: aiohttp.ClientTimeout,
        body: bytes | None = None, media: str = "",
    ) -> AsyncIterator[aiohttp.ClientResponse]:  # fmt: skip
        """A successful answer; every error as ApiError. After a 401 with a token that was replaced meanwhile the
        request is repeated once."""
        again = True
        while True:
            token = self._token()
            headers = {"Accept": "application/json"}
            if token:
                headers["Authorization"] = f"Bearer {token}"
            if media:
                headers["Content-Type"] = media
            try:
                session = await self._client()
                async with session.request(
                    method, self.server.url + path, params=query, data=body, headers=headers, timeout=limit,
                    allow_redirects=False,
                ) as answer:  # fmt: skip
                    if answer.status == UNAUTHORIZED and again and token != self._token():
                        again = False
                        continue
                    if answer.status not in (200, 201):
                        raise await _refusal(answer)
                    yield answer
                    return
            except TimeoutError as error:
                raise ApiError(f"no answer within {limit.total or limit.sock_read:g} s") from error
            except (aiohttp.ClientError, OSError, ValueError, asyncio.IncompleteReadError) as error:
                raise ApiError(f"{type(error).__name__}: {error}") from error

    def _token(self) -> str:
        path = self.server.token_file
        if not path:
            return ""
        try:
            with Path(path).open("rb") as file:
                data = file.read(MAX_SECRET + 1)
            text = data.decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ApiError(f"token file: {error}") from error
        if not text or len(data) > MAX_SECRET or not text.isprintable():
            raise ApiError(f"token file: {path}: must hold one token of at most {MAX_SECRET} bytes")
        return text

    async def _client(self) -> aiohttp.ClientSession:
        """The session; a new one after a change of the CA file."""
        path, trusted = self.server.ca_file, None
        try:
            if path:
                state = os.stat(path)
                trusted = (state.st_ino, state.st_size, state.st_mtime_ns)
            if self._session is None or trusted != self._trusted:
                tls: ssl.SSLContext | bool = trusting(path) if path else True
                await self.close()
                connector = aiohttp.TCPConnector(limit=CONNECTIONS, ssl=tls)
                self._session = aiohttp.ClientSession(connector=connector, headers={"User-Agent": USER_AGENT})
                self._trusted = trusted
        except (OSError, ValueError) as error:
            raise ApiError(f"CA file: {error}") from error
        return self._session


class _Refusal(msgspec.Struct, frozen=True):
    message: str = ""


async def _refusal(answer: aiohttp.ClientResponse) -> ApiError:
    """The error of an unsuccessful answer."""
    body = await answer.content.read(MAX_REFUSAL)
    try:
        text = json_value(body, _Refusal).message
    except Undecodable:
        text = body.decode(errors="replace")
    words = " ".join(text.split())[:300] or answer.reason or "no reason"
    wait = answer.headers.get("Retry-After", "")
    return ApiError(f"HTTP {answer.status}: {words}", answer.status, float(wait) if wait.isdecimal() else 0.0)
