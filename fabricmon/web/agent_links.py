"""Credentials of the server towards agents and verification of agents: TLS, certificate, token or password."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from fabricmon.config.source import ConfigError, ConfigProblem, noted
from fabricmon.web import tls
from fabricmon.web.admission import certificate
from fabricmon.web.loaded import read_tokens
from fabricmon.web.settings import LinkConfig
from fabricmon.web.watched import Watched


@dataclass(frozen=True, slots=True)
class Presented:
    """The current credentials.

    context  of TLS; None: the system's default
    headers  of each request
    """

    context: ssl.SSLContext | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class AgentLinks:
    """The connections to agents. The constructor reads all files: ConfigError for an invalid one."""

    def __init__(self, config: LinkConfig) -> None:
        self._config = config
        self.watched = self.prepare(config)

    def prepare(self, config: LinkConfig) -> Watched[Presented]:
        """Read the files of other settings, for `adopt`; in any thread. ConfigError for an invalid file."""
        return Watched("agents", lambda: load(config))

    def adopt(self, prepared: Watched[Presented], config: LinkConfig) -> None:
        """Other settings, from the next connection on."""
        self.watched.adopt(prepared)
        self._config = config

    async def run(self) -> None:
        """Reload changed files until cancelled."""
        await self.watched.run()

    def warnings(self) -> list[str]:
        """Problems, one sentence each."""
        error = self.watched.error
        return [f"Credentials for agents were rejected, the previous ones are in use: {error}"] if error else []

    def options(self, scheme: str) -> dict[str, Any]:
        """Arguments of a connection to an agent whose target has `scheme` ("" none): `headers`, and for TLS
        `ssl` and `server_hostname`."""
        now = self.watched.value
        found: dict[str, Any] = {"headers": now.headers}
        if self.encrypts(scheme):
            found["ssl"] = now.context if now.context is not None else True
            if self._config.server_name:
                found["server_hostname"] = self._config.server_name
        return found

    def encrypts(self, scheme: str) -> bool:
        """Whether a target with this scheme uses TLS."""
        return scheme == "https" or (self._config.tls and not scheme)

    def impostor(self, node: str, expected: str, peer: Mapping[str, Any] | None) -> str:
        """ "" or why an agent may not report as `node`. `expected` is the node of its target, `peer` its certificate as
        `ssl` returns it."""
        how = self._config.node_names
        if how == "target" and node != expected:
            return f"it reports as {node}, its target is {expected}"
        if how == "certificate":
            names = certificate.alternative_names(peer)
            if node not in names and not any(name.startswith(f"{node}.") for name in names):
                return f"it reports as {node}, its certificate is for {', '.join(names)[:200] or 'no name'}"
        return ""

    @property
    def names_sweepers(self) -> bool:
        """Whether the settings name nodes whose sweeps are taken."""
        return bool(self._config.sweepers)

    def names_sweeper(self, node: str) -> bool:
        """Whether the settings name the node among those whose sweeps are taken."""
        return any(fnmatchcase(node, pattern) for pattern in self._config.sweepers)

    def overreach(self, node: str, swept: int) -> str:
        """ "" or why a node's report of `swept` ports of other nodes is refused."""
        config = self._config
        if not swept or self.names_sweeper(node) or (not config.sweepers and config.node_names == "reported"):
            return ""
        return f"it reports {swept} ports of other nodes, and central.agents.sweepers does not name it"


def load(config: LinkConfig) -> tuple[Presented, Sequence[str]]:
    """The credentials and their files. ConfigError with all problems."""
    problems, context, headers = list[ConfigProblem](), None, {}
    with noted(problems, "configuration", "central.agents"):
        if config.tls or config.ca_file or config.cert_file:
            context = tls.client_context(config.ca_file, config.cert_file, config.key_file)
    with noted(problems, config.token_file, "central.agents.token_file"):
        if config.token_file:
            headers["Authorization"] = f"Bearer {read_tokens(config.token_file)[0].decode()}"
    with noted(problems, config.password_file, "central.agents.password_file"):
        if config.password_file:
            user = base64.b64encode(config.username.encode() + b":" + _password(config.password_file))
            headers["Authorization"] = f"Basic {user.decode()}"
    if problems:
        raise ConfigError(*problems)
    files = (config.ca_file, config.cert_file, config.key_file, config.token_file, config.password_file)
    return Presented(context, headers), [path for path in files if path]


def _password(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read(4096).rstrip(b"\r\n")
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
    if not data or b"\n" in data:
        raise ValueError("must hold one line")
    return data
