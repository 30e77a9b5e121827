"""Requests to slurmrestd over TCP or a Unix socket. The API version is found by trying, the newest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import aiohttp

from fabricmon.senders.post import USER_AGENT, read_secret, tls_by

MAX_REFUSAL = 512  # bytes of an error's body that are read
UNKNOWN = (404, 501)  # statuses of an unknown path or API version


class SlurmError(Exception):
    """A request failed or was refused; the text is one line. `status`: HTTP status, 0 without an answer."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


class SlurmAccess(Protocol):
    """Settings of the access to slurmrestd: http, https or unix URL, user of the token, file with the JSON web token,
    file of CA certificates; "" if not set."""

    @property
    def url(self) -> str: ...

    @property
    def user(self) -> str: ...

    @property
    def token_file(self) -> str: ...

    @property
    def ca_file(self) -> str: ...


class Slurmrestd:
    """Client of one slurmrestd; each request has its own connection.

    versions  supported API versions, the newest first
    deadline  seconds of one request
    most      bytes of an answer
    """

    def __init__(self, access: SlurmAccess, versions: Sequence[str], deadline: float, most: int) -> None:
        self._access, self._versions, self._deadline, self._most = access, tuple(versions), float(deadline), most
        self._version = ""

    def forget_version(self) -> None:
        """Detect the version again, after an upgrade."""
        self._version = ""

    async def request(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """The body of the answer with status 200. SlurmError for everything else."""
        url = self._access.url
        socket = url.removeprefix("unix://") if url.startswith("unix://") else ""
        base, limit = "http://slurmrestd" if socket else url.rstrip("/"), aiohttp.ClientTimeout(total=self._deadline)
        try:
            trust = tls_by(self._access.ca_file) if self._access.ca_file else True
            connector = aiohttp.UnixConnector(socket) if socket else aiohttp.TCPConnector(limit=2, ssl=trust)
            async with aiohttp.ClientSession(connector=connector, headers=self._headers(), timeout=limit) as session:
                for version in (self._version,) if self._version else self._versions:
                    where = f"{base}/slurm/{version}/{path}"
                    async with session.request(method, where, data=body, allow_redirects=False) as answer:
                        if answer.status in UNKNOWN and not self._version:
                            continue
                        if answer.status != 200:
                            raise SlurmError(await _refusal(answer), answer.status)
                        data = await self._whole(answer)
                        self._version = version
                        return data
        except TimeoutError as error:
            raise SlurmError(f"no answer within {self._deadline:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise SlurmError(f"{type(error).__name__}: {error}") from error
        raise SlurmError(f"supports no API version from {self._versions[-1]} to {self._versions[0]}")

    def _headers(self) -> dict[str, str]:
        headers = {"User-Agent": USER_AGENT, "Accept": "application/json", "Content-Type": "application/json"}
        if self._access.user:
            headers["X-SLURM-USER-NAME"] = self._access.user
        if self._access.token_file:
            headers["X-SLURM-USER-TOKEN"] = read_secret(self._access.token_file)
        return headers

    async def _whole(self, answer: aiohttp.ClientResponse) -> bytes:
        data = bytearray()
        async for piece in answer.content.iter_chunked(1 << 20):
            data += piece
            if len(data) > self._most:
                raise SlurmError(f"answer larger than {self._most} bytes")
        return bytes(data)


async def _refusal(answer: aiohttp.ClientResponse) -> str:
    """Status and start of an error answer."""
    text = " ".join((await answer.content.read(MAX_REFUSAL)).decode(errors="replace").split())
    return f"HTTP {answer.status}: {text or answer.reason or 'no reason given'}"
