"""Authorisation at a listener; `gate` applies it to requests.

Four levels, each includes those below: nothing (the probes), scrape, read, change.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from urllib.parse import urlsplit

PROBES = ("/-/live", "/-/healthy", "/-/ready")
SCRAPED = ("/metrics", "/health", "/api/v1/targets")
"""What Prometheus requests: metrics, and from the server the list of agents to scrape."""

SAFE = ("GET", "HEAD", "OPTIONS")


class Level(IntEnum):
    """Role of a caller, or role that a request needs."""

    NOTHING = 0
    SCRAPE = 1
    READ = 2
    CHANGE = 3

    @property
    def word(self) -> str:
        return self.name.lower()


LEVELS = {level.word: level for level in Level}


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller. `name` is "" without credentials, "mara" for a user, "san:server.example" for a certificate, "token"
    for a token."""

    name: str
    level: Level


@dataclass(frozen=True, slots=True)
class Policy:
    """Roles and configured credentials.

    users, reading, changing  users, tokens for reading, tokens for changes are configured
    certificates              client certificates are verified
    """

    anonymous: Level
    roles: Mapping[str, Level]
    users: bool = False
    reading: bool = False
    changing: bool = False
    certificates: bool = False

    def anonymous_caller(self) -> Caller:
        """The caller without credentials."""
        return Caller("", self.anonymous)

    def user(self, name: str) -> Caller:
        """An authenticated user."""
        return Caller(name, self.roles.get(name, Level.READ))

    def holder(self, sans: Sequence[str]) -> Caller:
        """The holder of a certificate with these names, with the strongest role of them."""
        named = [(self.roles[f"san:{name}"], name) for name in sans if f"san:{name}" in self.roles]
        level, name = max(named, default=(Level.READ, sans[0] if sans else "?"))
        return Caller(f"san:{name}", level)

    @property
    def challenges(self) -> tuple[str, ...]:
        """Values of WWW-Authenticate."""
        basic = ('Basic realm="fabricmon", charset="UTF-8"',) if self.users else ()
        return (*basic, *(('Bearer realm="fabricmon"',) if self.reading or self.changing else ()))


def policy_of(
    anonymous: str,
    roles: Mapping[str, str],
    *,
    users: bool = False,
    reading: bool = False,
    changing: bool = False,
    certificates: bool = False,
    required: bool = False,
) -> Policy:
    """The policy of settings; `anonymous` "" depends on the configured credentials. `required`: TLS requires a client
    certificate."""
    if anonymous:
        level = LEVELS[anonymous]
    elif users or reading or required:
        level = Level.NOTHING
    else:
        level = Level.READ if changing else Level.CHANGE
    return Policy(level, {name: LEVELS[word] for name, word in roles.items()}, users, reading, changing, certificates)


def needed(method: str, path: str) -> Level:
    """The level that a request needs."""
    if method not in SAFE:
        return Level.CHANGE
    if path in PROBES:
        return Level.NOTHING
    return Level.SCRAPE if path in SCRAPED else Level.READ


def refusal(policy: Policy, caller: Caller, need: Level) -> tuple[int, str] | None:
    """Status and text for a caller without permission; None with it."""
    if caller.level >= need:
        return None
    if caller.name:
        return 403, f"{caller.name} has role {caller.level.word}, this needs {need.word} (web.roles)"
    if need is Level.CHANGE and policy.changing and not policy.users:
        return 401, "a bearer token is required: Authorization: Bearer TOKEN"
    ways = [
        words
        for words, there in (
            ("a user and password", policy.users),
            ("a bearer token", policy.reading or policy.changing),
            ("a client certificate", policy.certificates),
        )
        if there
    ]
    return 401, f"this needs {' or '.join(ways)}" if ways else f"anonymous callers may not {need.word} (web.anonymous)"


# --------------------------------------------------------------------------------------------------------
# Browsers: a page of another site must not use the permissions of its visitor


def host_of(authority: str) -> str:
    """The host of a Host header or of an origin's authority, lower case, without port and brackets."""
    try:
        return (urlsplit(f"//{authority}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def is_address(host: str) -> bool:
    """Whether it is an IP address, which DNS cannot redirect."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def host_known(authority: str, hosts: Sequence[str]) -> bool:
    """Whether the host is an address, localhost or a configured name (no DNS rebinding)."""
    host = host_of(authority)
    return is_address(host) or host == "localhost" or host.endswith(".localhost") or host in hosts


def foreign(origin: str, site: str, authority: str, external: str) -> str:
    """"" or why a change was requested by a page of another site.

    origin     the header Origin, which only browsers send, with every such request
    site       the header Sec-Fetch-Site
    authority  the header Host
    external   origin of `external_url`, for a proxy; "" none
    """
    if site not in ("", "same-origin", "none"):
        return f"the request comes from another site's page ({site})"
    if not origin:
        return ""
    if external and origin == external:
        return ""
    parts = urlsplit(origin) if origin != "null" else None
    if parts is None or parts.netloc.lower() != authority.lower():
        return f"the request comes from a page of {origin}"
    return ""
