"""The kernel log from now on: /dev/kmsg, one record a read (kernel-log.md section 1).

What is in the log already is the past and no news: reading begins at its end. Whoever may write to /dev/kmsg can forge
a line, but not one of facility 0, the kernel's own; only those are passed on.
"""

from __future__ import annotations

import errno
import os
import re
import select
import threading
import time
from collections.abc import Callable

from fabricmon.host.protocol import HostError, KernelMessage

PATH = "/dev/kmsg"
_RECORD = 8192  # the kernel's own limit of one record with its keys
_BURST = 2000
"""Records of one second; the rest waits in the kernel's ring, and what falls out of that is counted as lost."""
_REOPEN_SECONDS = 5.0
_HEAD = re.compile(rb"(\d{1,10}),(\d{1,20}),(\d{1,20}),[^;]{0,200};([^\n]*)")
_DEVICE = re.compile(rb"\n DEVICE=\+pci:([0-9a-f:.]{7,16})(?:\n|$)")

Open = Callable[[], int]


def open_log() -> int:
    """A descriptor behind the newest record; reads do not block. HostError where this process may not."""
    try:
        descriptor = os.open(PATH, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise HostError(PATH, error.errno or 0, os.strerror(error.errno or 0)) from None
    os.lseek(descriptor, 0, os.SEEK_END)
    return descriptor


def decode(record: bytes) -> KernelMessage | None:
    """One record of /dev/kmsg; None for one that the kernel did not write itself, or that is none."""
    head = _HEAD.match(record)
    if head is None or int(head[1]) >> 3:
        return None
    device = _DEVICE.search(record, head.end())
    return KernelMessage(
        sequence=int(head[2]),
        level=int(head[1]) & 7,
        uptime=int(head[3]) / 1e6,
        text=head[4].decode("utf-8", "replace"),
        device=device[1].decode("ascii") if device else "",
    )


def watch(tell: Callable[[KernelMessage | None], None], open_log: Open = open_log) -> Callable[[], None]:
    """`tell(message)` for each message of the kernel from now on, `tell(None)` where some were lost; from a thread.

    Returns a function that stops it. HostError where the log cannot be read.
    """
    descriptor = open_log()
    stop, stopper = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    thread = threading.Thread(target=_follow, args=(descriptor, stop, tell, open_log), name="kmsg", daemon=True)
    thread.start()

    def end() -> None:
        os.close(stopper)
        thread.join(1.0)

    return end


def _follow(descriptor: int, stop: int, tell: Callable[[KernelMessage | None], None], open_log: Open) -> None:
    try:
        while not _waited(descriptor, stop):
            started = time.monotonic()
            try:
                full = _drain(descriptor, tell)
            except OSError:
                os.close(descriptor)
                descriptor = -1
                tell(None)
                while descriptor < 0:
                    if _stopped(stop, _REOPEN_SECONDS):
                        return
                    try:
                        descriptor = open_log()
                    except HostError:
                        continue
                continue
            if full and _stopped(stop, max(0.0, started + 1.0 - time.monotonic())):
                return
    finally:
        if descriptor >= 0:
            os.close(descriptor)
        os.close(stop)


def _waited(descriptor: int, stop: int) -> bool:
    """Wait for a record; True when it is to end."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    poll.register(stop, select.POLLIN)
    return any(which == stop for which, _ in poll.poll())


def _stopped(stop: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(stop, select.POLLIN)
    return bool(poll.poll(1000 * seconds))


def _drain(descriptor: int, tell: Callable[[KernelMessage | None], None]) -> bool:
    """Pass on what is there; True when there was more than one burst holds. OSError where the log is of no use now."""
    for _ in range(_BURST):
        try:
            record = os.read(descriptor, _RECORD)
        except BlockingIOError:
            return False
        except OSError as error:
            # EPIPE: records were overwritten before they were read; EINVAL: one was larger than the kernel makes them
            if error.errno not in (errno.EPIPE, errno.EINVAL):
                raise
            tell(None)
            continue
        if not record:
            raise OSError(errno.ENODATA, "the log has ended")
        message = decode(record)
        if message is not None:
            tell(message)
    return True
