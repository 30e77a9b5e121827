"""How a command on a node reaches the agent of that node, whatever its listener asks for.

The agent's own configuration says it: that the listener speaks TLS, by which certificate (that one is taken, and no
other), and which token reads. Options say the rest, and all of it for an agent elsewhere."""

from __future__ import annotations

import argparse
import base64
import os
import ssl
from dataclasses import dataclass, field
from urllib.parse import urlsplit
from urllib.request import HTTPSHandler, OpenerDirector, ProxyHandler, build_opener

from fabricmon.runtime.http import Address, parse_address
from fabricmon.web.settings import WebConfig

MAX_SECRET = 65536  # bytes of a file with a token or a password


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
        "this node's own agent is reached by what its configuration says; the environment variables are in brackets",
    )
    for flag, what in (
        ("token", "a bearer token"),
        ("user", "USER:PASSWORD"),
        ("ca", "certificates of who may vouch for the agent"),
        ("cert", "a client's certificate"),
        ("key", "the key of that certificate, where it is a file of its own"),
    ):
        name = f"FABRICMON_{flag.upper()}_FILE"
        group.add_argument(f"--{flag}-file", metavar="FILE", default=os.environ.get(name, ""), help=f"{what} [{name}]")


def way(address: str, web: WebConfig, args: argparse.Namespace) -> Way:
    """The way to the agent at `address` ("HOST:PORT", or a URL) whose configuration has `web`.

    ConfigError or ValueError for an address that is none and for files that cannot be used.
    """
    scheme, _, rest = address.rpartition("://")
    parts = urlsplit(f"//{rest}")
    host, port = parse_address(parts.netloc)
    pinned = _certificate(web) if not args.ca_file and web.config_file else ""
    context = None
    if scheme == "https" or (not scheme and (pinned or args.ca_file)):
        from fabricmon.web import tls

        context = tls.pinned_context(pinned) if pinned else tls.client_context(args.ca_file, "", "")
        if args.cert_file:
            context.load_cert_chain(args.cert_file, args.key_file or None)
    base = f"{'https' if context is not None else 'http'}://{Address(host or '127.0.0.1', port)}"
    return Way(base + parts.path.rstrip("/"), context, _credentials(web, args))


def _certificate(web: WebConfig) -> str:
    """The certificate that the agent's own listener shows; "" where it speaks no TLS, or has it in the file itself."""
    from fabricmon.web import file

    server = file.load(web.config_file).tls_server_config
    return server.cert_file if server is not None else ""


def _credentials(web: WebConfig, args: argparse.Namespace) -> dict[str, str]:
    if args.user_file:
        return {"Authorization": f"Basic {base64.b64encode(_line(args.user_file).encode()).decode()}"}
    path = args.token_file or web.token_file
    if not path:
        return {}
    try:
        return {"Authorization": f"Bearer {_line(path)}"}
    except PermissionError:
        if args.token_file:
            raise
        return {}  # the agent's own, which not every user of this node may read; the agent says what it asks for


def _line(path: str) -> str:
    """The first line of a file."""
    with open(path, encoding="utf-8") as file:
        return file.read(MAX_SECRET).strip().partition("\n")[0].strip()
