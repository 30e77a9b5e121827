"""HOST:PORT addresses of listeners. Without the HTTP server's imports, for commands that start often."""

from __future__ import annotations

import re
from typing import NamedTuple


class Address(NamedTuple):
    """An address of a listener. `host` "": every address of the machine."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """`HOST:PORT`, `[IPV6]:PORT` or `:PORT`. ValueError names what was expected."""
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.%\w]+)\]|([\w.-]*)):(\d{1,5})", text.strip())
    host = (match[1] or match[2] or "") if match else ""
    if not match or int(match[3]) > 65535 or not _resolvable(host):
        raise ValueError(f"expected an address such as 127.0.0.1:9790, [::1]:9790 or :9790, got {text!r}")
    return Address(host, int(match[3]))


def _resolvable(host: str) -> bool:
    """Whether a resolver accepts it: sockets raise UnicodeError for "a..b" and labels of more than 63 characters."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True
