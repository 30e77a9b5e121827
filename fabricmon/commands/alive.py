"""Health check of a container: exit 0 if the agent or server that runs in it answers, 1 if not.

Needs no configuration: it tries the ports on which processes of this user listen. Alive is an answer of success to
/-/live, or a refusal because of a missing certificate or password. Takes a tenth of a second of one core."""

from __future__ import annotations

import argparse
import glob
import http.client
import os
import socket
import ssl
import sys
from collections.abc import Iterator

from fabricmon.runtime.address import parse_address
from fabricmon.terminal.fitted_text import clean

EXAMPLES = """\
fabricmon alive
fabricmon alive --address 127.0.0.1:9790
"""

LISTEN = "0A"  # state of a listening socket in /proc/net/tcp (proc(5))
CLOSED_TO_US = (401, 403)
LONGEST = 3600.0  # seconds; sockets raise for a timeout that is too large


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--address", metavar="HOST:PORT", help="address to try (default: sockets of this user)")
    parser.add_argument("--timeout", metavar="SECONDS", type=float, default=3.0, help="time for the answer (default 3)")


def run(args: argparse.Namespace) -> int:
    """Print the result in one line. 0 alive, 1 not, 2 for an invalid address or timeout."""
    if not 0 < args.timeout <= LONGEST:
        wanted = f"expected --timeout above 0 and at most {LONGEST:g} seconds"
        print(f"fabricmon alive: {wanted}, got {args.timeout:g}", file=sys.stderr)
        return 2
    if args.address is not None:
        try:
            host, port = parse_address(args.address)
        except ValueError as error:
            print(f"fabricmon alive: {error}", file=sys.stderr)
            return 2
        places = [(host or "127.0.0.1", port)]
    else:
        places = list(listening(own_sockets()))
    if not places:
        print("not alive: no process of this user listens on a port")
        return 1
    failed = []
    for host, port in places:
        reason = probe(host, port, args.timeout)
        if reason is None:
            print(f"alive: {host}:{port}")
            return 0
        failed.append(f"{host}:{port}: {clean(reason)}")
    print(f"not alive: {'; '.join(failed)}")
    return 1


def probe(host: str, port: int, timeout: float) -> str | None:
    """Why the address is not alive; None if it is."""
    try:
        return _verdict(http.client.HTTPConnection(host, port, timeout=timeout))
    except http.client.HTTPException:
        pass  # TLS, perhaps
    except OSError as error:
        if not isinstance(error, ConnectionResetError):
            return str(error)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Whether it answers is the question, not who it is: the address is this machine's own.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=context)
    try:
        connection.connect()
    except ssl.SSLError as error:
        alert = "ALERT" in (error.reason or "")
        return None if alert else str(error)  # an alert is an answer: a client certificate is required
    except OSError as error:
        return str(error) or type(error).__name__
    try:
        return _verdict(connection)
    except (ssl.SSLError, ConnectionError, http.client.HTTPException):
        return None  # closed after the handshake: TLS 1.3 rejects a missing client certificate only now
    except OSError as error:
        return str(error) or type(error).__name__


def _verdict(connection: http.client.HTTPConnection) -> str | None:
    try:
        connection.request("GET", "/-/live")
        answer = connection.getresponse()
        text = answer.read(1000).decode(errors="replace").strip()
    finally:
        connection.close()
    if answer.status == 200 or answer.status in CLOSED_TO_US:
        return None
    return f"{answer.status} {text}"


def own_sockets() -> set[str]:
    """Inodes of the sockets of all processes of this user."""
    found = set()
    for path in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            target = os.readlink(path)
        except OSError:
            continue  # the process has ended, or is of another user
        if target.startswith("socket:["):
            found.add(target[8:-1])
    return found


def listening(inodes: set[str]) -> Iterator[tuple[str, int]]:
    """Address and port of the listening sockets among these; loopback for a wildcard address."""
    for family, path in ((socket.AF_INET, "/proc/net/tcp"), (socket.AF_INET6, "/proc/net/tcp6")):
        try:
            with open(path, encoding="ascii") as file:
                rows = file.read().splitlines()[1:]
        except OSError:
            continue  # no IPv6
        for row in rows:
            fields = row.split()
            if fields[3] == LISTEN and fields[9] in inodes:
                yield address(family, fields[1])


def address(family: socket.AddressFamily, text: str) -> tuple[str, int]:
    """Address and port of the kernel's text, such as `0100007F:263E`: 32-bit words in host byte order, and the port."""
    digits, _, port = text.partition(":")
    words = [int(digits[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(digits), 8)]
    host = socket.inet_ntop(family, b"".join(words))
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), int(port, 16)
