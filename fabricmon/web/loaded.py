"""The security settings of a listener with the contents of their files."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fabricmon.config.source import ConfigError, ConfigProblem, noted
from fabricmon.web import file, tls
from fabricmon.web.admission.access import Policy, policy_of
from fabricmon.web.settings import WebConfig

MAX_TOKENS = 8
"""Lines of a token file."""

MAX_TOKEN_FILE = 64 << 10
"""Bytes of a token file."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings in force.

    context       TLS; None: plain HTTP
    sans          names of which the certificate of a client must have one; empty: any
    verifies      client certificates are verified
    not_after     expiry of the certificate of the listener (wall time); None without TLS
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
    """The settings in force and their files. `where` is the section for messages. ConfigError with all problems."""
    made = file.load(settings.config_file) if settings.config_file else file.WebFile()
    server, problems = made.tls_server_config, list[ConfigProblem]()
    context, ends = None, None
    reading: tuple[bytes, ...] = ()
    changing: tuple[bytes, ...] = ()
    with noted(problems, settings.config_file, "tls_server_config"):
        context, ends = tls.server_context(server) if server is not None else (None, None)
    with noted(problems, settings.token_file, f"{where}.web.token_file"):
        reading = read_tokens(settings.token_file) if settings.token_file else ()
    with noted(problems, change_token_file, f"{where}.token_file"):
        changing = read_tokens(change_token_file) if change_token_file else ()
    problems += _unknown_users(settings, made, where)
    if problems:
        raise ConfigError(*problems)
    verifies = server is not None and bool(server.client_ca or server.client_ca_file)
    policy = policy_of(
        settings.anonymous, settings.roles, users=bool(made.basic_auth_users), reading=bool(reading),
        changing=bool(changing), certificates=verifies, required=server is not None and server.requires,
    )  # fmt: skip
    loaded = Loaded(
        policy=policy,
        context=context,
        sans=frozenset(server.client_allowed_sans) if server else frozenset(),
        verifies=verifies,
        not_after=ends,
        users=made.basic_auth_users,
        reading=reading,
        changing=changing,
        headers={name: value for name, value in made.http_server_config.headers.items() if value},
        interval=float(made.rate_limit.interval),
        burst=made.rate_limit.burst,
    )
    own = (server.cert_file, server.key_file, server.client_ca_file) if server is not None else ()
    return loaded, [path for path in (settings.config_file, settings.token_file, change_token_file, *own) if path]


def _unknown_users(settings: WebConfig, made: file.WebFile, where: str) -> Iterator[ConfigProblem]:
    text = "no such user in basic_auth_users; a certificate's name is written san:NAME"
    for name in settings.roles:
        if not name.startswith("san:") and name not in made.basic_auth_users:
            yield ConfigProblem(settings.config_file or "configuration", 0, f"{where}.web.roles.{name}", text)


def read_tokens(path: str) -> tuple[bytes, ...]:
    """The tokens of a file, one per line, at least one. ValueError for an invalid file."""
    try:
        with Path(path).open("rb") as opened:
            data = opened.read(MAX_TOKEN_FILE + 1)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
    found = tuple(line.strip() for line in data.splitlines() if line.strip())
    if len(data) > MAX_TOKEN_FILE or not 1 <= len(found) <= MAX_TOKENS:
        raise ValueError(f"must hold 1 to {MAX_TOKENS} tokens, one per line")
    if any(not token.isascii() or b" " in token for token in found):
        raise ValueError("a token is one word of ASCII characters")
    return found
