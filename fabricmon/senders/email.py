"""Sender `email`: mails over SMTP, sent in a thread so that a hanging mail server delays no other receiver.

TLS is never downgraded: with `tls: starttls` nothing is sent to a server without STARTTLS, and an invalid certificate
is rejected.
"""

from __future__ import annotations

import contextlib
import smtplib
import socket
import ssl
from collections.abc import Mapping, Sequence
from email.message import EmailMessage
from typing import Annotated, Literal

import aiohttp
from msgspec import Meta, field

from fabricmon.model import Notification
from fabricmon.notify.batch import DIGEST
from fabricmon.notify.links import NO_LINKS, IncidentLinks
from fabricmon.runtime.reader import Overdue, Readers
from fabricmon.senders.attempt import NO_RECEIPTS, Attempt, DeliveryOutcome
from fabricmon.senders.mail_message import DETAILED, Envelope, digest, domain_of, identity, single
from fabricmon.senders.post import read_secret, tls_by, without
from fabricmon.senders.routing import Worded

REFRESH = 0.0
KEEPS = True  # receipts: the Message-ID of the first mail of an episode

PORTS = {"starttls": 587, "implicit": 465, "none": 25}
SITE = frozenset({530, 534, 535, 538})
"""Answers that require TLS or a login (RFC 3207, RFC 4954): a configuration error, retried until corrected."""

MAX_TO = 50  # recipients; use a mailing list for more
MAX_THREADS = 8  # concurrent mails, including those at a hanging server

_threads = Readers(MAX_THREADS)


class EmailConfig(Worded, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A receiver of kind `email`; see also `routing.Worded`. `title` is the subject.

    host           mail server.
    port           0: 587 with starttls, 465 with implicit, 25 with none.
    tls            starttls | implicit | none (on a trusted network only).
    user           login name; "": no login.
    password_file  file with the password.
    from           sender's address: fabricmon@example.com.
    to             recipients.
    ca_file        CA certificates (PEM) to trust instead of the system's.
    """

    host: str
    sender: str = field(name="from")
    to: tuple[str, ...]
    port: Annotated[int, Meta(ge=0, le=65535)] = 0
    tls: Literal["starttls", "implicit", "none"] = "starttls"
    user: str = ""
    password_file: str = ""
    ca_file: str = ""

    def __post_init__(self) -> None:
        self.check()
        if not self.host:
            raise ValueError("`host` is empty")
        if not 1 <= len(self.to) <= MAX_TO:
            raise ValueError(f"`to`: expected 1 to {MAX_TO} addresses")
        for key, address in (("from", self.sender), *(("to", one) for one in self.to)):
            try:
                domain_of(address)
            except (ValueError, IndexError) as error:
                raise ValueError(f"`{key}`: {address!r} is not a mail address") from error
        if bool(self.user) != bool(self.password_file):
            raise ValueError("`user` and `password_file` must be set together")
        if self.user and self.tls == "none":
            raise ValueError("`user`: a password is not sent without TLS; set `tls` to starttls or implicit")

    @property
    def each(self) -> int:
        return DETAILED

    def envelope(self) -> Envelope:
        """The addresses for the headers."""
        return Envelope(self.sender, self.to, domain_of(self.sender))


async def send(
    session: aiohttp.ClientSession,
    config: EmailConfig,
    notification: Notification,
    links: IncidentLinks = NO_LINKS,
    receipts: Mapping[str, str] = NO_RECEIPTS,
) -> Attempt:
    """One attempt over one connection, within `timeout` in all."""
    thread = _threads.open(f"mail {config.host}")
    if thread is None:
        return Attempt.retry(f"{MAX_THREADS} mails are waiting for a server that does not answer")
    made, kept = mails(config, notification, links, receipts)
    password = ""
    try:
        password = read_secret(config.password_file) if config.password_file else ""
        trust = tls_by(config.ca_file) if config.ca_file else ssl.create_default_context()
        result = await thread.call(lambda: deliver(config, made, password, trust), config.timeout)
    except Overdue:
        return Attempt.retry(f"{config.host}: not completed within {config.timeout:g} s")
    except (OSError, ValueError) as error:
        return Attempt.retry(f"password or CA file: {error}")
    finally:
        thread.close()
    return without(result._replace(receipts=kept if result.outcome is DeliveryOutcome.DONE else {}), password)


def preview(config: EmailConfig, notification: Notification, links: IncidentLinks = NO_LINKS) -> str:
    """The headers and plain text that `send` would send."""
    made, _ = mails(config, notification, links, NO_RECEIPTS)
    shown = []
    for mail in made:
        plain = mail.get_body(("plain",))
        head = "\n".join(f"{name}: {value}" for name, value in mail.items() if not name.startswith("Content"))
        shown.append(f"{head}\n\n{plain.get_content() if plain is not None else ''}")
    return "\n".join(shown)


def mails(
    config: EmailConfig, notification: Notification, links: IncidentLinks, receipts: Mapping[str, str]
) -> tuple[list[EmailMessage], dict[str, str]]:
    """The mails, and for each incident the id of the first mail of its thread."""
    envelope, incidents = config.envelope(), notification.incidents
    # A new episode starts a new thread.
    threads = {id: receipts[id] for id in notification.before if id in receipts}
    if len(incidents) > DETAILED or notification.reason == DIGEST:
        id = identity(notification, "digest", envelope)
        kept = {i.id: threads.get(i.id, id) for i in incidents}
        return [digest(config, incidents, notification, links, envelope)], kept
    kept = {i.id: threads.get(i.id) or identity(notification, i.id, envelope) for i in incidents}
    made = [single(config, i, notification, links, envelope, threads.get(i.id, "")) for i in incidents]
    return made, kept


def deliver(config: EmailConfig, made: Sequence[EmailMessage], password: str, trust: ssl.SSLContext) -> Attempt:
    """Send the mails. Blocks."""
    port = config.port or PORTS[config.tls]
    where = f"{config.host}:{port}"
    try:
        server = _connect(config, port, trust)
        try:
            if config.tls == "starttls":
                server.starttls(context=trust)
            if config.user:
                server.login(config.user, password)
            missed = "; ".join(filter(None, [_one(config, server, mail) for mail in made]))
            with contextlib.suppress(smtplib.SMTPException, OSError):  # the mails are accepted even if QUIT fails
                server.quit()
        finally:
            server.close()
    except smtplib.SMTPNotSupportedError as error:
        return Attempt.retry(f"{where}: {error}; nothing was sent")
    except smtplib.SMTPAuthenticationError as error:
        return Attempt.retry(f"{where}: login refused: {_answer(error.smtp_code, error.smtp_error)}")
    except smtplib.SMTPRecipientsRefused as error:
        return _refused(where, error.recipients)
    except smtplib.SMTPResponseException as error:
        reason = f"{where}: {_answer(error.smtp_code, error.smtp_error)}"
        if error.smtp_code in SITE:
            return Attempt.retry(reason)
        outcome = DeliveryOutcome.NEVER if error.smtp_code >= 500 else DeliveryOutcome.RETRY
        return Attempt(outcome, reason, answered=True)
    except (smtplib.SMTPException, OSError) as error:
        return Attempt.retry(f"{where}: {type(error).__name__}: {error}")
    return Attempt.done(f"{where}: accepted" + (f", but not for {missed}" if missed else ""), answered=True)


def _connect(config: EmailConfig, port: int, trust: ssl.SSLContext) -> smtplib.SMTP:
    name, within = socket.gethostname(), float(config.timeout)
    if config.tls == "implicit":
        return smtplib.SMTP_SSL(config.host, port, local_hostname=name, timeout=within, context=trust)
    return smtplib.SMTP(config.host, port, local_hostname=name, timeout=within)


def _one(config: EmailConfig, server: smtplib.SMTP, mail: EmailMessage) -> str:
    """Send one mail; returns the refused recipients as text."""
    refused = server.send_message(mail, config.sender, list(config.to))
    return "; ".join(f"{to} ({_answer(*answer)})" for to, answer in refused.items())


def _refused(where: str, recipients: Mapping[str, tuple[int, bytes]]) -> Attempt:
    """All recipients were refused: RETRY if one refusal is temporary."""
    later = any(code < 500 for code, _ in recipients.values())
    words = "; ".join(f"{to} ({_answer(*answer)})" for to, answer in recipients.items())
    return Attempt(
        DeliveryOutcome.RETRY if later else DeliveryOutcome.NEVER, f"{where}: refused for {words}"[:500], answered=True
    )


def _answer(code: int, words: bytes | str) -> str:
    text = words.decode(errors="replace") if isinstance(words, bytes) else words
    return f"{code} {' '.join(text.split())[:200]}"
