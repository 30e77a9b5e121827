"""Records of the kernel log: /dev/kmsg, one record a read (docs/methods.md#kernel-log).

Reading begins with the records of this boot that are there, marked as earlier. A process with write access to /dev/kmsg
can forge a record, but not one of facility 0, the kernel's; only those are passed on.
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
_RECORD = 8192  # the kernel's limit of one record with its keys
_BURST = 2000
"""Records of one second; the rest stays in the kernel's ring, whose losses are reported."""
_REOPEN_SECONDS = 5.0
_HEAD = re.compile(rb"(\d{1,10}),(\d{1,20}),(\d{1,20}),[^;]{0,200};([^\n]*)")
_DEVICE = re.compile(rb"\n DEVICE=\+pci:([0-9a-f:.]{7,16})(?:\n|$)")

Open = Callable[[], int]
Notify = Callable[[KernelMessage | None], None]


def open_whole() -> int:
    """A non-blocking descriptor before the oldest record. HostError where this process may not open it."""
    try:
        return os.open(PATH, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise HostError.from_os(PATH, error) from None


def open_log() -> int:
    """The same after the newest record."""
    descriptor = open_whole()
    os.lseek(descriptor, 0, os.SEEK_END)
    return descriptor


def decode(record: bytes, earlier: bool = False) -> KernelMessage | None:
    """One record of /dev/kmsg; None for an invalid one or one that the kernel did not write."""
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
        earlier=earlier,
    )


def watch(notify: Notify, open_log: Open = open_log, open_whole: Open | None = None) -> Callable[[], None]:
    """Call `notify(message)` from a thread for each new message of the kernel, `notify(None)` where some were lost;
    returns the function that stops it. HostError where the log cannot be read.

    open_whole  how the log is opened first where the messages that are there are wanted, too
    """
    descriptor = open_log() if open_whole is None else open_whole()
    stop, stopper = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    given = (descriptor, stop, notify, open_log, open_whole is not None)
    thread = threading.Thread(target=_follow, args=given, name="kmsg", daemon=True)
    thread.start()

    def end() -> None:
        os.close(stopper)
        thread.join(1.0)

    return end


def _follow(descriptor: int, stop: int, notify: Notify, open_log: Open, earlier: bool) -> None:
    try:
        while earlier and not _stopped(stop, 0.0):
            try:
                earlier = _drain(descriptor, notify, earlier)
            except OSError:
                break  # the same error again below
        while not _stopped(stop, None, descriptor):
            started = time.monotonic()
            try:
                full = _drain(descriptor, notify)
            except OSError:
                os.close(descriptor)
                descriptor = -1
                notify(None)
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


def _stopped(stop: int, seconds: float | None, *also: int) -> bool:
    """Wait for `stop`, at most `seconds`, or for a descriptor of `also`; True when stopped."""
    poll = select.poll()
    for descriptor in (stop, *also):
        poll.register(descriptor, select.POLLIN)
    return any(which == stop for which, _ in poll.poll(None if seconds is None else 1000 * seconds))


def _drain(descriptor: int, notify: Notify, earlier: bool = False) -> bool:
    """Pass on the records that are there; True after a full burst. OSError where the log has to be opened again."""
    for _ in range(_BURST):
        try:
            record = os.read(descriptor, _RECORD)
        except BlockingIOError:
            return False
        except OSError as error:
            # EPIPE: records were overwritten before they were read; EINVAL: one was larger than the kernel makes them
            if error.errno not in (errno.EPIPE, errno.EINVAL):
                raise
            if not earlier:
                notify(None)
            continue
        if not record:
            raise OSError(errno.ENODATA, "the log has ended")
        message = decode(record, earlier)
        if message is not None:
            notify(message)
    return True
