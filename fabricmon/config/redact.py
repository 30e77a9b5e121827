"""A configuration without secrets: of texts only those of known harmless fields are shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

_BETWEEN = r"[\s/?&=:@#,;\[\]]+"
HIDDEN = "(hidden)"
SHORTEST = 6
"""Characters from which a secret is also searched for in other texts: shorter ones occur by chance."""

HARMLESS = frozenset({
    "apply", "directory", "fabric", "file", "files", "format", "kind", "level", "listen", "name", "namespaces", "node",
    "node_names", "method", "priorities", "refresh", "resources", "severity", "source", "state", "target_files", "type",
    "zone",
})  # fmt: skip
"""Fields whose text is shown; besides every `*_file` (the name of a file, not what is in it)."""


def redacted(value: Any, key: str = "") -> Any:
    """Plain values as of `fabricmon config show`: numbers and texts of harmless fields as they are, of an address
    scheme, host and port, of every other text HIDDEN. Names of receivers, rules and headers are kept."""
    if isinstance(value, dict):
        return {name: redacted(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [redacted(item, key) for item in value]
    if not isinstance(value, str) or not value or key in HARMLESS or key.endswith("_file") or _amount(value):
        return value
    return _origin(value) if _is_address(value) else HIDDEN


def secrets_in(value: Any, key: str = "") -> Iterator[str]:
    """The texts that `redacted` hides and that may be secrets: values of headers and words of commands, and of
    addresses what stands beside scheme, host and port."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from secrets_in(item, "headers" if key == "headers" else name)
    elif isinstance(value, list):
        for item in value:
            yield from secrets_in(item, key)
    elif isinstance(value, str) and value and key not in HARMLESS and not key.endswith("_file"):
        if _is_address(value):
            yield from _beside_origin(value)
        if key in ("headers", "command"):
            yield value
            yield from re.split(_BETWEEN, value)


def scrubbed(text: str, secrets: frozenset[str]) -> str:
    """The text with HIDDEN for each secret in it, the longest first."""
    for secret in sorted((s for s in secrets if len(s) >= SHORTEST), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def _amount(text: str) -> bool:
    """A duration or a rate: "1m30s", "400Gb/s"."""
    return len(text) <= 16 and text[0].isdigit() and not text.strip("0123456789.smhdkKMGTb/")


def _is_address(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def _origin(text: str) -> str:
    try:
        parts = urlsplit(text)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return HIDDEN
    more = f"/{HIDDEN}" if parts.path.strip("/") or parts.query or parts.fragment else ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}{more}"


def _beside_origin(text: str) -> Iterator[str]:
    try:
        host = urlsplit(text).hostname or ""
    except ValueError:
        host = ""
    yield from (word for word in re.split(_BETWEEN, text) if word not in ("", "http", "https", host))
