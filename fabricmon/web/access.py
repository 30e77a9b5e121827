"""Who may do what at a listener. Decides only; `gate` looks at requests.

Four levels, each with all below it: nothing (the probes), scrape, read, change.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from urllib.parse import urlsplit

PROBES = ("/-/live", "/-/healthy", "/-/ready")
SCRAPED = ("/metrics", "/health", "/api/v1/targets")
"""What a Prometheus asks for: readings, and at the centre the list of agents that it is to scrape."""

SAFE = ("GET", "HEAD", "OPTIONS")


class Level(IntEnum):
    """What somebody may do, or a request needs."""

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
    """Somebody at the listener. `name` is "" for one who showed nothing, "mara" for a user, "san:centre.example" for a
    certificate, "token" for the holder of one."""

    name: str
    level: Level


@dataclass(frozen=True, slots=True)
class Policy:
    """Who may do what.

    users, reading, changing  there are users, tokens to read with, tokens to change with
    certificates              callers may show a certificate
    """

    anonymous: Level
    roles: Mapping[str, Level]
    users: bool = False
    reading: bool = False
    changing: bool = False
    certificates: bool = False

    def nobody(self) -> Caller:
        """Who showed nothing."""
        return Caller("", self.anonymous)

    def user(self, name: str) -> Caller:
        """A user whose password was right."""
        return Caller(name, self.roles.get(name, Level.READ))

    def holder(self, sans: Sequence[str]) -> Caller:
        """The holder of a certificate with these names: the most that one of them may."""
        named = [(self.roles[f"san:{name}"], name) for name in sans if f"san:{name}" in self.roles]
        level, name = max(named, default=(Level.READ, sans[0] if sans else "?"))
        return Caller(f"san:{name}", level)

    @property
    def challenges(self) -> tuple[str, ...]:
        """Values of WWW-Authenticate: what would help."""
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
    """The policy of settings; an `anonymous` of "" follows from what there is. `required`: without a certificate nobody
    gets as far as a request."""
    if anonymous:
        level = LEVELS[anonymous]
    elif users or reading or required:
        level = Level.NOTHING
    else:
        level = Level.READ if changing else Level.CHANGE
    return Policy(level, {name: LEVELS[word] for name, word in roles.items()}, users, reading, changing, certificates)


def needed(method: str, path: str) -> Level:
    """What a request needs."""
    if method not in SAFE:
        return Level.CHANGE
    if path in PROBES:
        return Level.NOTHING
    return Level.SCRAPE if path in SCRAPED else Level.READ


def refusal(policy: Policy, caller: Caller, need: Level) -> tuple[int, str] | None:
    """Status and sentence for a caller who may not; None for one who may."""
    if caller.level >= need:
        return None
    if caller.name:
        return 403, f"{caller.name} may {caller.level.word}, this needs {need.word} (web.roles)"
    if need is Level.CHANGE and policy.changing and not policy.users:
        return 401, "a bearer token is needed: Authorization: Bearer TOKEN"
    ways = [
        words
        for words, there in (
            ("a user and password", policy.users),
            ("a bearer token", policy.reading or policy.changing),
            ("a client certificate", policy.certificates),
        )
        if there
    ]
    return 401, f"this needs {' or '.join(ways)}" if ways else f"nobody may {need.word} here (web.anonymous)"


# --------------------------------------------------------------------------------------------------------
# Browsers: a page of somebody else must not use what its visitor may do here


def host_of(authority: str) -> str:
    """The host of a Host header or of an origin's authority, lower case, without port and brackets."""
    try:
        return (urlsplit(f"//{authority}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def is_address(host: str) -> bool:
    """An IP address, which no name server can turn into another."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def host_known(authority: str, hosts: Sequence[str]) -> bool:
    """A name that leads here by the site's will, and not by that of whoever owns the name."""
    host = host_of(authority)
    return is_address(host) or host == "localhost" or host.endswith(".localhost") or host in hosts


def foreign(origin: str, site: str, authority: str, external: str) -> str:
    """"" or why a changing request was made by somebody else's page.

    origin     the header Origin, which browsers send with every such request and nothing else sends
    site       the header Sec-Fetch-Site
    authority  the header Host
    external   origin of the address people use, where a proxy stands in between; "" without
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
