"""The connection from a command to the agent of the same node: address, TLS and credentials.

They come from the agent's own configuration: whether the listener uses TLS, its certificate (which is pinned) and the
token that reads. Options add the rest, and all of it for an agent of another node. Environment variables are not used:
they hold the credentials for the server, which are not for a node."""

from __future__ import annotations

import argparse
import ssl
from dataclasses import dataclass, field
from urllib.parse import urlsplit
from urllib.request import HTTPSHandler, OpenerDirector, ProxyHandler, build_opener

from fabricmon.commands import credentials
from fabricmon.runtime.address import Address, parse_address
from fabricmon.web.settings import WebConfig


@dataclass(frozen=True)
class Way:
    """Address of an agent, TLS context (None: no TLS) and the headers to send."""

    url: str
    context: ssl.SSLContext | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def opener(self) -> OpenerDirector:
        """A URL opener that uses no proxy: the agent is on this node or near it."""
        tls = [HTTPSHandler(context=self.context)] if self.context is not None else []
        return build_opener(ProxyHandler({}), *tls)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The credentials for an agent."""
    group = parser.add_argument_group(
        "if the agent's listener requires them",
        "for this node's own agent they come from its configuration; the FABRICMON_ variables are for the server only",
    )
    credentials.add_arguments(group, "agent")


def way(address: str, web: WebConfig, args: argparse.Namespace) -> Way:
    """How to reach the agent at `address` ("HOST:PORT", or a URL) whose configuration has `web`.

    ConfigError, ValueError or OSError for an invalid address and for files that cannot be used.
    """
    scheme, _, rest = address.rpartition("://")
    parts = urlsplit(f"//{rest}")
    host, port = parse_address(parts.netloc)
    pinned = _certificate(web) if not args.ca_file and web.config_file else ""
    context = None
    if scheme == "https" or (not scheme and (pinned or args.ca_file)):
        from fabricmon.web import tls

        if pinned:
            context = tls.pinned_context(pinned, args.cert_file, args.key_file)
        else:
            context = tls.client_context(args.ca_file, args.cert_file, args.key_file)
    base = f"{'https' if context is not None else 'http'}://{Address(host or '127.0.0.1', port)}"
    return Way(base + parts.path.rstrip("/"), context, _credentials(web, args))


def _certificate(web: WebConfig) -> str:
    """The certificate of the agent's own listener; "" without TLS, or if it is inside the web configuration."""
    from fabricmon.web import file

    server = file.load(web.config_file).tls_server_config
    return server.cert_file if server is not None else ""


def _credentials(web: WebConfig, args: argparse.Namespace) -> dict[str, str]:
    if args.token_file or args.user_file:
        return credentials.header(args.token_file, args.user_file)
    try:
        return credentials.header(web.token_file)
    except PermissionError:
        return {}  # not every user of this node may read it; the agent answers what it requires
