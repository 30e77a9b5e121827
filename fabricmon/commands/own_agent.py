"""How a command on a node reaches the agent of that node, whatever its listener asks for.

The agent's own configuration says it: that the listener speaks TLS, by which certificate (that one is taken, and no
other), and which token reads. Options say the rest, and all of it for an agent elsewhere. The environment says nothing:
its variables are the centre's, and a token for the centre is not for a node."""

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
    """Where an agent answers, and what it is shown. `context` None: no TLS."""

    url: str
    context: ssl.SSLContext | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def opener(self) -> OpenerDirector:
        """Never through a proxy: the agent is on this node or next to it."""
        tls = [HTTPSHandler(context=self.context)] if self.context is not None else []
        return build_opener(ProxyHandler({}), *tls)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What an agent is shown and known by."""
    group = parser.add_argument_group(
        "where the agent's listener asks for it",
        "this node's own agent is reached by what its configuration says; the environment's variables are the centre's",
    )
    credentials.add_arguments(group, "agent")


def way(address: str, web: WebConfig, args: argparse.Namespace) -> Way:
    """The way to the agent at `address` ("HOST:PORT", or a URL) whose configuration has `web`.

    ConfigError, ValueError or OSError for an address that is none and for files that cannot be used.
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
    """The certificate that the agent's own listener shows; "" where it speaks no TLS, or has it in the file itself."""
    from fabricmon.web import file

    server = file.load(web.config_file).tls_server_config
    return server.cert_file if server is not None else ""


def _credentials(web: WebConfig, args: argparse.Namespace) -> dict[str, str]:
    if args.token_file or args.user_file:
        return credentials.header(args.token_file, args.user_file)
    try:
        return credentials.header(web.token_file)
    except PermissionError:
        return {}  # the agent's own, which not every user of this node may read; the agent says what it asks for
