"""Names to addresses: A and AAAA through the system's resolver, SRV by a question of our own.

SRV is asked over UDP and, where the answer was cut, over TCP (RFC 1035 4.2, RFC 2782), at the servers and with the
search list of /etc/resolv.conf, as the system does for addresses. All of it blocks: call it in a thread.
"""

from __future__ import annotations

import secrets
import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

RESOLV_CONF = "/etc/resolv.conf"
TIMEOUT = 3.0  # seconds a server has for an answer
ATTEMPTS = 2  # rounds over all servers
MAX_SERVERS = 3  # as in resolv.conf(5)
MAX_SEARCH = 6
MAX_ANSWER = 65535  # bytes, the most that DNS over TCP can say
MAX_POINTERS = 64  # compression pointers followed in one name

LOCAL = ("127.0.0.1",)  # the server where none is named, resolv.conf(5)
SRV, IN = 33, 1
_NXDOMAIN = 3


class DnsError(Exception):
    """A name that could not be resolved; the text names it and says why."""


class Service(NamedTuple):
    """One SRV record."""

    priority: int
    weight: int
    port: int
    host: str


@dataclass(frozen=True, slots=True)
class Resolver:
    """What /etc/resolv.conf says: servers, search list, and from how many dots on a name is tried as it is first."""

    servers: tuple[str, ...] = LOCAL
    search: tuple[str, ...] = ()
    ndots: int = 1
    port: int = 53

    def candidates(self, name: str) -> list[str]:
        """The full names to ask for, in order."""
        if name.endswith("."):
            return [name[:-1]]
        searched = [f"{name}.{domain}" for domain in self.search]
        return [name, *searched] if name.count(".") >= self.ndots else [*searched, name]


def resolver(path: str = RESOLV_CONF) -> Resolver:
    """The system's resolver settings; the local server where there is no such file."""
    servers: list[str] = []
    search: tuple[str, ...] = ()
    ndots = 1
    try:
        text = Path(path).read_text(errors="replace")
    except OSError:
        return Resolver()
    for line in text.splitlines():
        words = line.split("#")[0].split(";")[0].split()
        if len(words) < 2:
            continue
        if words[0] == "nameserver":
            servers.append(words[1])
        elif words[0] in ("search", "domain"):
            search = tuple(w.strip(".") for w in words[1 : 1 + MAX_SEARCH] if w.strip("."))
        elif words[0] == "options":
            for word in words[1:]:
                if word.startswith("ndots:") and word[6:].isdecimal():
                    ndots = min(15, int(word[6:]))
    return Resolver(tuple(servers[:MAX_SERVERS]) or LOCAL, search, ndots)


def addresses(name: str, family: socket.AddressFamily) -> list[str]:
    """All addresses of one family behind a name, sorted. DnsError where there are none."""
    try:
        found = socket.getaddrinfo(name, None, family, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise DnsError(f"{name}: {getattr(error, 'strerror', None) or error}") from error
    return sorted({str(entry[4][0]) for entry in found})


def services(name: str, using: Resolver | None = None) -> list[Service]:
    """The SRV records of a name, in the order of priority. DnsError where no server gives any."""
    using = using or resolver()
    last = "no answer"
    for full in using.candidates(name):
        question = encode_question(secrets.randbelow(65536), full)
        for _ in range(ATTEMPTS):
            for server in using.servers:
                try:
                    code, found = decode_answer(_ask(server, using.port, question), question)
                except (OSError, DnsError) as error:
                    last = f"{server}: {error}"
                    continue
                if found:
                    return sorted(found)
                last = f"{server}: {'no such name' if code == _NXDOMAIN else f'no SRV record (code {code})'}"
                break
            else:
                continue
            break
    raise DnsError(f"{name}: {last}")


def _ask(server: str, port: int, question: bytes) -> bytes:
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(TIMEOUT)
        s.connect((server, port))  # the kernel then drops what other addresses send
        s.send(question)
        answer = s.recv(4096)
    if len(answer) < 4 or not answer[2] & 0x02:
        return answer
    with socket.create_connection((server, port), TIMEOUT) as s:
        s.sendall(struct.pack("!H", len(question)) + question)
        (length,) = struct.unpack("!H", _exactly(s, 2))
        return _exactly(s, length)


def _exactly(s: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        chunk = s.recv(length - len(data))
        if not chunk:
            raise DnsError("the connection ended within the answer")
        data += chunk
    return data


def encode_question(number: int, name: str, kind: int = SRV) -> bytes:
    """A recursive question for one name. DnsError for a name DNS cannot have."""
    wire = b""
    for label in name.strip(".").split("."):
        try:
            raw = label.encode("ascii" if label.isascii() else "idna")
        except UnicodeError as error:
            raise DnsError(f"{name}: not a DNS name") from error
        if not 0 < len(raw) < 64:
            raise DnsError(f"{name}: a label of a DNS name has 1 to 63 characters")
        wire += bytes([len(raw)]) + raw
    if len(wire) > 254:
        raise DnsError(f"{name}: a DNS name has at most 253 characters")
    return struct.pack("!HHHHHH", number, 0x0100, 1, 0, 0, 0) + wire + b"\0" + struct.pack("!HH", kind, IN)


def decode_answer(data: bytes, question: bytes) -> tuple[int, list[Service]]:
    """Response code and SRV records of an answer to `question`. DnsError for anything that is not one."""
    try:
        number, flags, asked, answers = struct.unpack_from("!HHHH", data)
        if number != struct.unpack_from("!H", question)[0] or not flags & 0x8000:
            raise DnsError("not an answer to this question")
        at = 12
        for _ in range(asked):
            at = _name(data, at)[1] + 4
        found = []
        for _ in range(answers):
            at = _name(data, at)[1]
            kind, klass, _ttl, length = struct.unpack_from("!HHIH", data, at)
            at += 10
            if kind == SRV and klass == IN:
                priority, weight, port = struct.unpack_from("!HHH", data, at)
                host = _name(data, at + 6)[0]
                if host and port:  # the host "." says that the service is not offered (RFC 2782)
                    found.append(Service(priority, weight, port, host))
            at += length
    except (struct.error, IndexError) as error:
        raise DnsError("the answer is cut or garbled") from error
    return flags & 0x000F, found


def _name(data: bytes, at: int) -> tuple[str, int]:
    """A name, compressed or not (RFC 1035 4.1.4), and the offset behind it."""
    labels: list[str] = []
    end = 0
    for _ in range(MAX_POINTERS + 128):
        length = data[at]
        if length >= 0xC0:
            end = end or at + 2
            at = (length & 0x3F) << 8 | data[at + 1]
        elif length >= 0x40:
            break
        elif length == 0:
            return ".".join(labels), end or at + 1
        else:
            raw = data[at + 1 : at + 1 + length]
            if len(raw) < length:
                break
            labels.append(raw.decode("ascii", "replace"))
            at += 1 + length
    raise DnsError("the answer is cut or garbled")
