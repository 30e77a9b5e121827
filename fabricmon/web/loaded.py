"""All that a listener's security needs from files, read at once."""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fabricmon.config.source import ConfigError, Problem
from fabricmon.web import bcrypt, file, tls
from fabricmon.web.access import Policy, policy_of
from fabricmon.web.settings import WebConfig

MAX_TOKENS = 8
"""Lines of a token file."""

MAX_TOKEN_FILE = 64 << 10
"""Bytes of a token file."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What holds now.

    context       TLS; None: none
    sans          names of which a client's certificate must have one; empty: any
    verifies      clients' certificates are looked at
    not_after     wall time at which the listener's own certificate ends; None without TLS
    interval      seconds between requests of one client, `burst` at once; 0: no limit
    """

    policy: Policy
    context: ssl.SSLContext | None = None
    sans: frozenset[str] = frozenset()
    verifies: bool = False
    not_after: float | None = None
    users: Mapping[str, str] = field(default_factory=dict)
    reading: tuple[bytes, ...] = ()
    changing: tuple[bytes, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    interval: float = 0.0
    burst: int = 0


def load(settings: WebConfig, change_token_file: str, where: str) -> tuple[Loaded, Sequence[str]]:
    """What the settings lead to, and the files it stands in. `where` is the section's path in what is said.

    Raises ConfigError with all that cannot be used.
    """
    files = [path for path in (settings.config_file, settings.token_file, change_token_file) if path]
    made = file.load(settings.config_file) if settings.config_file else file.WebFile()
    problems, context, ends = [], None, None
    server = made.tls_server_config
    if server is not None:
        files += [path for path in (server.cert_file, server.key_file, server.client_ca_file) if path]
        try:
            context, ends = tls.server_context(server)
        except ValueError as error:
            problems.append(Problem(settings.config_file, 0, "tls_server_config", str(error)))
    if made.basic_auth_users:
        try:
            bcrypt.available()
        except bcrypt.NoBcrypt as error:
            problems.append(Problem(settings.config_file, 0, "basic_auth_users", str(error)))
    tokens = []
    for path, key in ((settings.token_file, f"{where}.web.token_file"), (change_token_file, f"{where}.token_file")):
        try:
            tokens.append(read_tokens(path) if path else ())
        except ValueError as error:
            problems.append(Problem(path, 0, key, str(error)))
    for name in settings.roles:
        if not name.startswith("san:") and name not in made.basic_auth_users:
            text = "no such user in basic_auth_users; a certificate's name is written san:NAME"
            problems.append(Problem(settings.config_file or "configuration", 0, f"{where}.web.roles.{name}", text))
    if problems:
        raise ConfigError(*problems)
    policy = policy_of(
        settings.anonymous, settings.roles, users=bool(made.basic_auth_users), reading=bool(tokens[0]),
        changing=bool(tokens[1]), certificates=server is not None and bool(server.client_ca or server.client_ca_file),
        required=server is not None and server.requires,
    )  # fmt: skip
    return (
        Loaded(
            policy=policy,
            context=context,
            sans=frozenset(server.client_allowed_sans) if server else frozenset(),
            verifies=server is not None and bool(server.client_ca or server.client_ca_file),
            not_after=ends,
            users=made.basic_auth_users,
            reading=tokens[0],
            changing=tokens[1],
            headers={name: value for name, value in made.http_server_config.headers.items() if value},
            interval=float(made.rate_limit.interval),
            burst=made.rate_limit.burst,
        ),
        files,
    )


def read_tokens(path: str) -> tuple[bytes, ...]:
    """The tokens of a file, one a line, at least one. ValueError says what is wrong with it."""
    try:
        with Path(path).open("rb") as opened:
            data = opened.read(MAX_TOKEN_FILE + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
    found = tuple(line.strip() for line in data.splitlines() if line.strip())
    if len(data) > MAX_TOKEN_FILE or not 1 <= len(found) <= MAX_TOKENS:
        raise ValueError(f"must hold 1 to {MAX_TOKENS} tokens, one a line")
    if any(not token.isascii() or b" " in token for token in found):
        raise ValueError("a token is one word of ASCII characters")
    return found
