"""Checks common to the settings of several senders. Each raises ValueError with the key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from fabricmon.notify.matchers import MatcherError, parse

# Headers set by fabricmon, or that would break the request.
OURS = frozenset(
    {
        "content-type",
        "content-length",
        "transfer-encoding",
        "host",
        "connection",
        "idempotency-key",
        "x-fabricmon-signature",
        "x-fabricmon-timestamp",
    }
)
LONGEST_TIMEOUT = 300.0  # seconds; the notifications of a receiver are sent in order, so one attempt delays the next


def check_url(url: str, key: str = "url") -> None:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, good = urlsplit(""), False
    if "@" in parts.netloc:
        # The URL is logged if a receiver is down, so it must not contain a secret, nor must this message.
        raise ValueError(f"`{key}` must not contain user or password; use `token_file` or `headers`")
    if not good:
        raise ValueError(f"`{key}` must be http://... or https://..., got {url!r}")


def check_headers(headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
            raise ValueError(f"`headers`: {name!r} is not a header name")
        if name.lower() in OURS:
            raise ValueError(f"`headers`: {name} is set by fabricmon")
        if any(c < " " or c == "\x7f" for c in value):
            raise ValueError(f"`headers`: the value of {name} has control characters")


def check_receiver(timeout: float, match: tuple[str, ...]) -> None:
    if not 0 < timeout <= LONGEST_TIMEOUT:
        raise ValueError(f"`timeout` must be above 0s and at most {LONGEST_TIMEOUT:g}s")
    for text in match:
        try:
            parse(text)
        except MatcherError as error:
            raise ValueError(f"`match`: {error}") from None
