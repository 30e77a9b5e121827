"""How the centre presents itself to agents and knows them: TLS, certificate, token or password, all from files."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from fabricmon.config.source import ConfigError, Problem
from fabricmon.web import certificate, tls
from fabricmon.web.loaded import read_tokens
from fabricmon.web.settings import LinkConfig
from fabricmon.web.watched import Watched


@dataclass(frozen=True, slots=True)
class Presented:
    """What is shown and asked now.

    context  for targets that are reached by TLS; None: as the system does
    headers  of each request
    """

    context: ssl.SSLContext | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Link:
    """The links to agents. The constructor reads all files: ConfigError for a bad one."""

    def __init__(self, config: LinkConfig) -> None:
        self._config = config
        self.watched = self.prepare(config)

    def prepare(self, config: LinkConfig) -> Watched[Presented]:
        """Read what other settings lead to, for `take`; in any thread. ConfigError for a bad file."""
        return Watched("agents", lambda: load(config))

    def take(self, prepared: Watched[Presented], config: LinkConfig) -> None:
        """Other settings, from the next connection on."""
        self.watched.take(prepared)
        self._config = config

    async def run(self) -> None:
        """Read files again that change, until cancelled."""
        await self.watched.run()

    def warnings(self) -> list[str]:
        """Sentences for people."""
        error = self.watched.error
        return [f"Files for the links to agents were refused, those before are in use: {error}"] if error else []

    def options(self, scheme: str) -> dict[str, Any]:
        """Arguments of a connection to an agent whose target says `scheme` ("" says nothing): `headers`, and for TLS
        `ssl` and `server_hostname`."""
        now = self.watched.value
        found: dict[str, Any] = {"headers": now.headers}
        if self.encrypts(scheme):
            found["ssl"] = now.context if now.context is not None else True
            if self._config.server_name:
                found["server_hostname"] = self._config.server_name
        return found

    def encrypts(self, scheme: str) -> bool:
        """Whether such a target is reached by TLS."""
        return scheme == "https" or (self._config.tls and not scheme)

    def impostor(self, node: str, expected: str, peer: Mapping[str, Any] | None) -> str:
        """"" or why an agent's word that it is `node` is not taken. `expected` is what its target says, `peer` its
        certificate as `ssl` gives it."""
        how = self._config.node_names
        if how == "target" and node != expected:
            return f"it says it is {node}, its target says {expected}"
        if how == "certificate":
            names = certificate.alternative_names(peer)
            if node not in names and not any(name.startswith(f"{node}.") for name in names):
                return f"it says it is {node}, its certificate says {', '.join(names)[:200] or 'nothing'}"
        return ""

    def overreach(self, node: str, swept: int) -> str:
        """"" or why a node's word on `swept` ports elsewhere is not taken."""
        config = self._config
        believed = config.sweepers or (("*",) if config.node_names == "said" else ())
        if not swept or any(fnmatchcase(node, pattern) for pattern in believed):
            return ""
        return f"it tells of {swept} ports elsewhere, and central.agents.sweepers does not name it"


def load(config: LinkConfig) -> tuple[Presented, Sequence[str]]:
    """What the settings lead to, and the files it stands in. ConfigError with all that cannot be used."""
    files = [
        path
        for path in (config.ca_file, config.cert_file, config.key_file, config.token_file, config.password_file)
        if path
    ]
    problems, context, headers = [], None, {}
    try:
        if config.tls or config.ca_file or config.cert_file:
            context = tls.client_context(config.ca_file, config.cert_file, config.key_file)
    except ValueError as error:
        problems.append(Problem("configuration", 0, "central.agents", str(error)))
    for path, key in ((config.token_file, "token_file"), (config.password_file, "password_file")):
        if not path:
            continue
        try:
            secret = read_tokens(path)[0] if key == "token_file" else _password(path)
        except ValueError as error:
            problems.append(Problem(path, 0, f"central.agents.{key}", str(error)))
            continue
        if key == "token_file":
            headers["Authorization"] = f"Bearer {secret.decode()}"
        else:
            told = base64.b64encode(config.username.encode() + b":" + secret).decode()
            headers["Authorization"] = f"Basic {told}"
    if problems:
        raise ConfigError(*problems)
    return Presented(context, headers), files


def _password(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read(4096).rstrip(b"\r\n")
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
    if not data or b"\n" in data:
        raise ValueError("must hold one line")
    return data


