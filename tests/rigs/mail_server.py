"""A mail server on loopback: SMTP by RFC 5321, with STARTTLS, AUTH PLAIN and LOGIN. Keeps the mails."""

from __future__ import annotations

import asyncio
import base64
import ssl
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage


@dataclass
class Mail:
    """What arrived, and how."""

    sender: str
    to: list[str]
    data: bytes
    encrypted: bool
    user: str

    @property
    def message(self) -> EmailMessage:
        return message_from_bytes(self.data, policy=policy.default)  # type: ignore[return-value]


@dataclass
class MailServer:
    """`answers`: command ("RCPT", "DATA", ".", "MAIL", "AUTH") -> lines to answer instead, taken one at a time."""

    tls: ssl.SSLContext | None = None
    implicit: bool = False
    password: str = ""
    silent: bool = False
    answers: dict[str, list[str]] = field(default_factory=dict)
    mails: list[Mail] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    port: int = 0

    async def __aenter__(self) -> MailServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls if self.implicit else None)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self.silent:
                await reader.read()
                return
            await self._talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            return
        finally:
            writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        encrypted, user, sender, to = self.implicit, "", "", []

        async def say(*lines: str) -> None:
            for at, line in enumerate(lines):
                code, _, rest = line.partition(" ")
                writer.write(f"{code}{'-' if at < len(lines) - 1 else ' '}{rest}\r\n".encode())
            await writer.drain()

        await say("220 mail.test ESMTP")
        while line := await reader.readline():
            text = line.decode().strip()
            verb, _, rest = text.partition(" ")
            verb = verb.upper()
            self.commands.append(verb)
            if self.answers.get(verb):
                await say(self.answers[verb].pop(0))
                continue
            match verb:
                case "EHLO" | "HELO":
                    more = ["250 STARTTLS"] if self.tls and not encrypted else []
                    more += ["250 AUTH PLAIN LOGIN"] if self.password and encrypted else []
                    await say("250 mail.test", *more, "250 SIZE 1000000")
                case "STARTTLS" if self.tls:
                    await say("220 go ahead")
                    await writer.start_tls(self.tls)
                    encrypted = True
                case "AUTH":
                    user = await self._login(rest, reader, say)
                    if not user:
                        await say("535 5.7.8 no such user or password")
                    else:
                        await say("235 2.7.0 welcome")
                case "MAIL":
                    sender, to = rest.partition("<")[2].partition(">")[0], []
                    await say("250 ok")
                case "RCPT":
                    to.append(rest.partition("<")[2].partition(">")[0])
                    await say("250 ok")
                case "DATA":
                    await say("354 end with a dot")
                    data = await self._data(reader)
                    if self.answers.get("."):
                        await say(self.answers["."].pop(0))
                    else:
                        self.mails.append(Mail(sender, to, data, encrypted, user))
                        await say("250 2.0.0 queued as 4711")
                case "RSET":
                    await say("250 ok")
                case "QUIT":
                    await say("221 bye")
                    return
                case _:
                    await say("502 unknown")

    async def _login(self, rest, reader, say) -> str:  # type: ignore[no-untyped-def]
        how, _, first = rest.partition(" ")
        if how.upper() == "PLAIN":
            _, user, password = base64.b64decode(first).decode().split("\0")
        else:
            await say("334 VXNlcm5hbWU6")
            user = base64.b64decode(first or await reader.readline()).decode()
            await say("334 UGFzc3dvcmQ6")
            password = base64.b64decode(await reader.readline()).decode()
        return user if password == self.password else ""

    async def _data(self, reader: asyncio.StreamReader) -> bytes:
        lines = []
        while (line := await reader.readline()) not in (b".\r\n", b""):
            lines.append(line[1:] if line.startswith(b"..") else line)
        return b"".join(lines)
