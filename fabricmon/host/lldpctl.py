"""LLDP neighbours from `lldpctl -f json`, within limits of time and size."""

from __future__ import annotations

import errno
import os
import select
import shutil
import subprocess
import time

from fabricmon.host.protocol import HostError, Unsupported

WHERE = "lldpctl -f json"
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin"
_LIMIT_SECONDS = 5.0
_MOST_BYTES = 4 << 20  # a neighbour is about 2 KiB


def ask(limit: float = _LIMIT_SECONDS, most: int = _MOST_BYTES) -> bytes:
    """The output. Unsupported where lldpd is not installed; HostError where it fails."""
    program = shutil.which("lldpctl", path=_PATH)
    if program is None:
        raise Unsupported(WHERE, errno.ENOENT, "lldpd is not installed")
    try:
        process = subprocess.Popen(
            [program, "-f", "json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": _PATH, "LC_ALL": "C"},
        )
    except OSError as error:
        raise HostError.from_os(WHERE, error) from None
    try:
        return _output(process, limit, most)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _output(process: subprocess.Popen[bytes], limit: float, most: int) -> bytes:
    assert process.stdout is not None
    descriptor, until = process.stdout.fileno(), time.monotonic() + limit
    found = bytearray()
    poll = select.poll()  # select() has no descriptors above 1023, and an agent keeps many files open
    poll.register(descriptor, select.POLLIN)
    while True:
        ready = poll.poll(1e3 * max(0.0, until - time.monotonic()))
        if not ready:
            raise HostError(WHERE, errno.ETIMEDOUT, f"no answer within {limit:g} s")
        piece = os.read(descriptor, 65536)
        if not piece:
            break
        found += piece
        if len(found) > most:
            raise HostError(WHERE, errno.EFBIG, f"more than {most} bytes")
    try:
        code = process.wait(max(0.1, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise HostError(WHERE, errno.ETIMEDOUT, "its output ended, the process did not") from None
    if code:
        raise HostError(WHERE, 0, f"exit {code}: is lldpd running, and may this user ask it?")
    return bytes(found)
