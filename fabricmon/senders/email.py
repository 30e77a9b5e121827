"""Sender `email`: mails by SMTP, in a thread of their own so that a mail server that hangs delays nobody.

What was agreed on is kept: with `tls: starttls` a server that offers none is sent nothing, and a certificate that does
not fit is not accepted.
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
from fabricmon.notify.links import NO_LINKS, Links
from fabricmon.runtime.reader import Overdue, Readers
from fabricmon.senders.mail_message import DETAILED, Envelope, digest, domain_of, identity, single
from fabricmon.senders.post import read_secret, tls_by, without
from fabricmon.senders.result import NO_RECEIPTS, Outcome, Result
from fabricmon.senders.routing import Worded

REFRESH = 0.0
KEEPS = True  # receipts: the Message-ID of the first mail of an episode

PORTS = {"starttls": 587, "implicit": 465, "none": 25}
SITE = frozenset({530, 534, 535, 538})
"""Answers that ask for TLS or a login (RFC 3207, RFC 4954): for the site to put right; what waits is told then."""

MAX_TO = 50  # recipients; more is a mailing list's work
MAX_THREADS = 8  # mails under way at once, those stuck at a dead server included

_threads = Readers(MAX_THREADS)


class Config(Worded, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A receiver of kind `email`; see also `routing.Worded`. `title` is the subject.

    host           the mail server.
    port           of it; 0: 587 with starttls, 465 with implicit, 25 with none.
    tls            starttls | implicit | none (only on a network that you trust).
    user           to log in as; "": without.
    password_file  file with the password.
    from           sender's address: fabricmon@example.com.
    to             who gets it.
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
                raise ValueError(f"`{key}`: {address!r} is no mail address") from error
        if bool(self.user) != bool(self.password_file):
            raise ValueError("`user` and `password_file` belong together")
        if self.user and self.tls == "none":
            raise ValueError("`user`: a password is not sent without TLS; set `tls` to starttls or implicit")

    def envelope(self) -> Envelope:
        """What goes into the headers."""
        return Envelope(self.sender, self.to, domain_of(self.sender))


async def send(
    session: aiohttp.ClientSession,
    config: Config,
    notification: Notification,
    links: Links = NO_LINKS,
    receipts: Mapping[str, str] = NO_RECEIPTS,
) -> Result:
    """One attempt, over one connection. `timeout` is for all of it."""
    thread = _threads.open(f"mail {config.host}")
    if thread is None:
        return Result(Outcome.RETRY, f"{MAX_THREADS} mails are stuck at a server that does not answer")
    made, kept = mails(config, notification, links, receipts)
    password = ""
    try:
        password = read_secret(config.password_file) if config.password_file else ""
        trust = tls_by(config.ca_file) if config.ca_file else ssl.create_default_context()
        result = await thread.call(lambda: deliver(config, made, password, trust), config.timeout)
    except Overdue:
        return Result(Outcome.RETRY, f"{config.host}: no end within {config.timeout:g} s")
    except (OSError, ValueError) as error:
        return Result(Outcome.RETRY, f"password or CA file: {error}")
    finally:
        thread.close()
    return without(result._replace(receipts=kept if result.outcome is Outcome.DONE else {}), password)


def preview(config: Config, notification: Notification, links: Links = NO_LINKS) -> str:
    """What would be sent: headers and the plain text; the HTML says the same."""
    made, _ = mails(config, notification, links, NO_RECEIPTS)
    shown = []
    for mail in made:
        plain = mail.get_body(("plain",))
        head = "\n".join(f"{name}: {value}" for name, value in mail.items() if not name.startswith("Content"))
        shown.append(f"{head}\n\n{plain.get_content() if plain is not None else ''}")
    return "\n".join(shown)


def mails(
    config: Config, notification: Notification, links: Links, receipts: Mapping[str, str]
) -> tuple[list[EmailMessage], dict[str, str]]:
    """What is sent, and for each incident the id of the mail that begins its thread."""
    envelope, incidents = config.envelope(), notification.incidents
    # An episode that begins anew begins a thread of its own.
    threads = {id: receipts[id] for id in notification.before if id in receipts}
    if len(incidents) > DETAILED:
        id = identity(notification, "digest", envelope)
        kept = {i.id: threads.get(i.id, id) for i in incidents}
        return [digest(config, incidents, notification, links, envelope)], kept
    kept = {i.id: threads.get(i.id) or identity(notification, i.id, envelope) for i in incidents}
    made = [single(config, i, notification, links, envelope, threads.get(i.id, "")) for i in incidents]
    return made, kept


def deliver(config: Config, made: Sequence[EmailMessage], password: str, trust: ssl.SSLContext) -> Result:
    """Give the mails to the server. Blocks."""
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
            with contextlib.suppress(smtplib.SMTPException, OSError):  # it has them, whatever becomes of the goodbye
                server.quit()
        finally:
            server.close()
    except smtplib.SMTPNotSupportedError as error:
        return Result(Outcome.RETRY, f"{where}: {error}; nothing was sent")
    except smtplib.SMTPAuthenticationError as error:
        return Result(Outcome.RETRY, f"{where}: login refused: {_answer(error.smtp_code, error.smtp_error)}")
    except smtplib.SMTPRecipientsRefused as error:
        return _refused(where, error.recipients)
    except smtplib.SMTPResponseException as error:
        said = f"{where}: {_answer(error.smtp_code, error.smtp_error)}"
        if error.smtp_code in SITE:
            return Result(Outcome.RETRY, said)
        return Result(Outcome.NEVER if error.smtp_code >= 500 else Outcome.RETRY, said, answered=True)
    except (smtplib.SMTPException, OSError) as error:
        return Result(Outcome.RETRY, f"{where}: {type(error).__name__}: {error}")
    return Result(Outcome.DONE, f"{where}: accepted" + (f", but not for {missed}" if missed else ""), answered=True)


def _connect(config: Config, port: int, trust: ssl.SSLContext) -> smtplib.SMTP:
    name, within = socket.gethostname(), float(config.timeout)
    if config.tls == "implicit":
        return smtplib.SMTP_SSL(config.host, port, local_hostname=name, timeout=within, context=trust)
    return smtplib.SMTP(config.host, port, local_hostname=name, timeout=within)


def _one(config: Config, server: smtplib.SMTP, mail: EmailMessage) -> str:
    """Send one mail; who of the recipients was refused, in words."""
    refused = server.send_message(mail, config.sender, list(config.to))
    return "; ".join(f"{to} ({_answer(*answer)})" for to, answer in refused.items())


def _refused(where: str, recipients: Mapping[str, tuple[int, bytes]]) -> Result:
    """Nobody took it: later, if one of them may do so later."""
    later = any(code < 500 for code, _ in recipients.values())
    words = "; ".join(f"{to} ({_answer(*answer)})" for to, answer in recipients.items())
    return Result(Outcome.RETRY if later else Outcome.NEVER, f"{where}: refused for {words}"[:500], answered=True)


def _answer(code: int, words: bytes | str) -> str:
    said = words.decode(errors="replace") if isinstance(words, bytes) else words
    return f"{code} {' '.join(said.split())[:200]}"
