"""Replaces the names of a site in an anonymised recording. Pure.

Names are learned from fields that hold names: of nodes, switches, places, jobs. Every occurrence, also within another
word or text, is replaced by the same pseudonym; so are GUIDs, hardware addresses and UUIDs, by their form.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

PLAIN = frozenset(
    {
        "device", "port", "netdev", "link_layer", "firmware", "board", "pci", "driver", "role", "hca_type", "bond",
        "gpu", "model", "link", "remote_pci", "class", "owner", "numa", "nearest", "relation", "module", "tray", "slot",
        "product", "vendor", "kind", "rail", "plane", "tier", "level", "network", "remote", "remote_port", "sources",
    }
)  # fmt: skip
"""Labels of hardware types and positions, which are the same on every machine of a type."""

_GUID = re.compile(r"\b(?:0x[0-9a-f]{16}|[0-9a-f]{4}(?::[0-9a-f]{4}){3}|[0-9a-f]{16})\b", re.I)
_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.I)
_HARDWARE = re.compile(r"\b[0-9a-f]{2}(?::[0-9a-f]{2}){5}\b", re.I)
_ADDRESS = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b")
_FORMS = re.compile("|".join(p.pattern for p in (_UUID, _GUID, _HARDWARE, _ADDRESS)), re.I)
_TOKEN = re.compile(r"[A-Za-z0-9_.\-]+")
_NUMBER = re.compile(r"[0-9.,x]*")
_WORDS = re.compile(r"(?:(?:[A-Za-z']+|\d+(?:\.\d+)?)[,;:]?(?: |$))*")

KEPT_DIGITS = 2
"""Last hexadecimal digits of a GUID that stay: the ports of an adapter have neighbouring ones."""


class Names:
    """Pseudonyms, keyed hashes of the names: without `key` a guessed name cannot be verified."""

    def __init__(self, key: bytes) -> None:
        self._key = hashlib.blake2b(key).digest()
        self._other: dict[str, str] = {}
        self._long: re.Pattern[str] | None = None

    def __len__(self) -> int:
        return len(self._other)

    def learn(self, name: str, sort: str) -> None:
        """Add a name of the site; `sort` is the prefix of its pseudonym. Numbers are none; the first sort counts."""
        if name and name not in self._other and not _NUMBER.fullmatch(name) and not _FORMS.fullmatch(name):
            self._other[name] = f"{sort}-{self.hidden(name, 8)}"
            self._long = None

    def labels(self, labels: Mapping[str, str]) -> dict[str, str]:
        """Labels with names replaced; those that are not PLAIN as whole words."""
        return {k: self.text(v) if k in PLAIN or k.startswith("port/") else self.word(v) for k, v in labels.items()}

    def word(self, value: str) -> str:
        """The pseudonym of a value that is a name as a whole, learned or not; learned names within it come first."""
        known = self.text(value)
        if known != value or not value or _NUMBER.fullmatch(value):
            return known
        return f"name-{self.hidden(value, 8)}"

    def text(self, value: str) -> str:
        """A text with every name in it replaced."""
        if value in self._other:
            return self._other[value]
        value = _FORMS.sub(self._form, value)
        long = self._long_names()
        if long is not None:
            value = long.sub(lambda match: self._other[match[0]], value)
        return _TOKEN.sub(lambda match: self._token(match[0]), value)

    def harmless(self, value: str) -> str:
        """The text with names replaced where it consists of plain words and numbers; else ""."""
        return self.text(value) if _WORDS.fullmatch(value) else ""

    def hidden(self, value: str, digits: int) -> str:
        """Hexadecimal digits of a value's keyed hash."""
        made = hashlib.blake2b(value.encode("utf-8", "surrogatepass"), key=self._key, digest_size=(digits + 1) // 2)
        return made.hexdigest()[:digits]

    def _token(self, token: str) -> str:
        known = self._other.get(token)
        if known is None:
            bare = token.rstrip(".-")  # the end of a sentence
            known = self._other.get(bare, bare) + token[len(bare) :]
        return known

    def _long_names(self) -> re.Pattern[str] | None:
        """Names with characters that end a token, longest first."""
        if self._long is None:
            names = sorted((n for n in self._other if not _TOKEN.fullmatch(n)), key=len, reverse=True)
            self._long = re.compile("|".join(map(re.escape, names)) if names else r"(?!)")
        return self._long

    def _form(self, match: re.Match[str]) -> str:
        """A pseudonym of the same form. Null and broadcast addresses stay."""
        found = match[0]
        if _ADDRESS.fullmatch(found):
            return "192.0.2.1"
        prefix = "0x" if found[:2].lower() == "0x" else ""
        digits = re.sub(r"[^0-9a-f]", "", found[len(prefix) :].lower())
        if len(set(digits)) == 1:
            return found
        guid = _GUID.fullmatch(found) is not None
        base = digits[:-KEPT_DIGITS] if guid else digits
        other = iter(self.hidden(base, len(base)) + digits[len(base) :])
        return prefix + "".join(next(other) if c in "0123456789abcdefABCDEF" else c for c in found[len(prefix) :])
