"""The web configuration file in the format of Prometheus exporters. Unknown keys are errors with their line.

A feature of the format that this listener does not support is an error, never ignored.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from fabricmon.config.decode import Decoder
from fabricmon.config.source import ConfigError, Located, parse, read_text
from fabricmon.units import Duration
from fabricmon.web import ciphers

MAX_USERS = 1000
MAX_COST = 15
"""Cost of a bcrypt hash; each step doubles the time, 15 takes two seconds of a core."""

HEADERS = (
    "Content-Security-Policy",
    "X-Frame-Options",
    "X-Content-Type-Options",
    "X-XSS-Protection",
    "Strict-Transport-Security",
)
_VALUES = {"X-Frame-Options": ("deny", "sameorigin"), "X-Content-Type-Options": ("nosniff",)}

_BCRYPT = re.compile(r"\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}")
_UNVERIFIED = ("RequestClientCert", "RequireAnyClientCert")

Version = Literal["TLS10", "TLS11", "TLS12", "TLS13"]


class TlsServer(Struct, forbid_unknown_fields=True, frozen=True):
    """`tls_server_config`. Paths are relative to the file; cert, key and client_ca hold PEM text."""

    cert: str = ""
    key: str = ""
    client_ca: str = ""
    cert_file: str = ""
    key_file: str = ""
    client_ca_file: str = ""
    client_auth_type: Literal[
        "", "NoClientCert", "RequestClientCert", "RequireAnyClientCert", "VerifyClientCertIfGiven",
        "RequireAndVerifyClientCert",
    ] = ""  # fmt: skip
    client_allowed_sans: tuple[str, ...] = ()
    min_version: Version = "TLS12"
    max_version: Version = "TLS13"
    cipher_suites: tuple[str, ...] = ()
    prefer_server_cipher_suites: bool = True
    curve_preferences: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("cert", "key", "client_ca"):
            if getattr(self, name) and getattr(self, f"{name}_file"):
                raise ValueError(f"either `{name}` or `{name}_file`")
        for name in ("cert", "key"):
            if not getattr(self, name) and not getattr(self, f"{name}_file"):
                raise ValueError(f"`{name}_file` is missing")
        asks = self.client_auth_type not in ("", "NoClientCert")
        if asks and not (self.client_ca or self.client_ca_file):
            raise ValueError(f"`client_auth_type` {self.client_auth_type} needs `client_ca_file`")
        if not asks and (self.client_ca or self.client_ca_file):
            raise ValueError("`client_ca_file` without a `client_auth_type` that requests a certificate")
        if self.client_allowed_sans and self.client_auth_type != "RequireAndVerifyClientCert":
            raise ValueError("`client_allowed_sans` needs `client_auth_type` RequireAndVerifyClientCert")
        if ciphers.VERSIONS[self.min_version] > ciphers.VERSIONS[self.max_version]:
            raise ValueError("`min_version` is above `max_version`")

    @property
    def requires(self) -> bool:
        """Whether every client needs a verified certificate."""
        return self.client_auth_type == "RequireAndVerifyClientCert"


class HttpServer(Struct, forbid_unknown_fields=True, frozen=True):
    """`http_server_config`. `http2` has no effect: the listener uses HTTP/1.1."""

    http2: bool = True
    headers: dict[str, str] = {}


class RateLimit(Struct, forbid_unknown_fields=True, frozen=True):
    """`rate_limit`: one request an `interval`, `burst` at once; per client. Interval 0: no limit."""

    interval: Duration = Duration(0)
    burst: Annotated[int, Meta(ge=0, le=1_000_000)] = 0


class WebFile(Struct, forbid_unknown_fields=True, frozen=True):
    """The file as a whole."""

    tls_server_config: TlsServer | None = None
    http_server_config: HttpServer = HttpServer()
    basic_auth_users: dict[str, str] = {}
    rate_limit: RateLimit = RateLimit()


def load(path: str) -> WebFile:
    """The file, with absolute paths. Raises ConfigError with all problems."""
    tree = parse(read_text(path), path)
    decoder = Decoder(path)
    decoder.files_matter = False  # paths are relative to this file and read later
    made: WebFile | None = decoder.struct(tree, WebFile, "")
    _words(decoder, tree)
    if decoder.problems or made is None:
        raise ConfigError(*decoder.problems)
    return _absolute(made, Path(path).absolute().parent)


def _absolute(made: WebFile, folder: Path) -> WebFile:
    from msgspec.structs import replace

    tls = made.tls_server_config
    if tls is None:
        return made
    paths = {
        name: str(folder / value)
        for name in ("cert_file", "key_file", "client_ca_file")
        if (value := getattr(tls, name))
    }
    return replace(made, tls_server_config=replace(tls, **paths))


def _words(decoder: Decoder, tree: Located) -> None:
    """Checks beyond the types of the structs, each with its line."""
    if not isinstance(tree.value, dict):
        return
    for path, item in _below(tree, "tls_server_config", "client_auth_type"):
        if item.value in _UNVERIFIED:
            known = "VerifyClientCertIfGiven or RequireAndVerifyClientCert"
            decoder.complain(item, path, f"not supported: a requested certificate is always verified; use {known}")
    for path, item in _below(tree, "tls_server_config", "cipher_suites"):
        for at, suite in enumerate(_list(item)):
            if isinstance(suite.value, str) and suite.value not in ciphers.SUITES and suite.value not in ciphers.ALWAYS:
                known_suites = (*ciphers.SUITES, *ciphers.ALWAYS)
                decoder.unknown(suite, f"{path}[{at}]", suite.value, known_suites, f"cipher suite '{suite.value}'")
    for path, item in _below(tree, "tls_server_config", "curve_preferences"):
        curves = _list(item)
        for at, curve in enumerate(curves):
            if isinstance(curve.value, str) and curve.value not in ciphers.CURVES:
                decoder.unknown(curve, f"{path}[{at}]", curve.value, ciphers.CURVES, f"curve '{curve.value}'")
        if len(curves) > 1:
            decoder.complain(item, path, "at most one curve; none: the defaults of OpenSSL")
    for path, item in _below(tree, "http_server_config", "headers"):
        _headers(decoder, item, path)
    users = tree.value.get("basic_auth_users")
    if users is not None and isinstance(users.value, dict):
        if len(users.value) > MAX_USERS:
            decoder.complain(users, "basic_auth_users", f"at most {MAX_USERS} users")
        for name, hashed in users.value.items():
            _user(decoder, hashed, name)


def _headers(decoder: Decoder, item: Located, path: str) -> None:
    if not isinstance(item.value, dict):
        return
    for name, value in item.value.items():
        if name not in HEADERS:
            decoder.unknown(value, f"{path}.{name}", name, HEADERS, "header")
        elif not isinstance(value.value, str):
            continue
        elif name in _VALUES and value.value.lower() not in ("", *_VALUES[name]):
            decoder.complain(value, f"{path}.{name}", f"expected one of {', '.join(_VALUES[name])}")
        elif not value.value.isprintable():
            decoder.complain(value, f"{path}.{name}", "a header is one line of text")


def _user(decoder: Decoder, item: Located, name: str) -> None:
    path = f"basic_auth_users.{name}"
    if not name or ":" in name or not name.isprintable():
        decoder.complain(item, path, "a user's name is text without a colon")
    if not isinstance(item.value, str):
        return
    match = _BCRYPT.fullmatch(item.value)
    if match is None:
        decoder.complain(item, path, "not a bcrypt hash such as htpasswd -nBC 10 prints")
    elif not 4 <= int(match[1]) <= MAX_COST:
        decoder.complain(item, path, f"a cost of {match[1]}: 4 to {MAX_COST} can be checked in time")


def _below(tree: Located, *keys: str) -> list[tuple[str, Located]]:
    """The path and the item at it; empty where the file has none."""
    at = tree
    for key in keys:
        if not isinstance(at.value, dict) or key not in at.value:
            return []
        at = at.value[key]
    return [(".".join(keys), at)]


def _list(item: Located) -> list[Located]:
    return item.value if isinstance(item.value, list) else []
