"""Names to addresses: A and AAAA by the system's resolver, SRV by dnspython. Both block: call them in a thread."""

from __future__ import annotations

import socket
from typing import NamedTuple

import dns.exception
import dns.resolver
from dns.rdtypes.IN.SRV import SRV

TIMEOUT = 10.0  # seconds for one SRV query: all servers, all names of the search list


class ResolveError(Exception):
    """A name that could not be resolved; the text names it and gives the reason."""


class Service(NamedTuple):
    """One SRV record (RFC 2782)."""

    priority: int
    weight: int
    port: int
    host: str


def addresses(name: str, family: socket.AddressFamily) -> list[str]:
    """All addresses of one family behind a name, sorted. ResolveError where there are none."""
    try:
        found = socket.getaddrinfo(name, None, family, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ResolveError(f"{name}: {getattr(error, 'strerror', None) or error}") from error
    return sorted({str(entry[4][0]) for entry in found})


def services(name: str, using: dns.resolver.Resolver | None = None) -> list[Service]:
    """The SRV records of a name, in the order of priority, by the servers and the search list of /etc/resolv.conf.

    ResolveError where no server gives any.
    """
    try:
        answer = (using or dns.resolver.Resolver()).resolve(name, "SRV", search=True, lifetime=TIMEOUT)
    except (dns.exception.DNSException, OSError, UnicodeError) as error:
        raise ResolveError(f"{name}: {error}") from error
    records = [record for record in answer if isinstance(record, SRV)]
    found = [Service(r.priority, r.weight, r.port, r.target.to_text(omit_final_dot=True)) for r in records]
    offered = [s for s in found if s.port and s.host not in ("", ".")]  # host ".": not offered (RFC 2782)
    if not offered:
        raise ResolveError(f"{name}: the service is not offered")
    return sorted(offered)
