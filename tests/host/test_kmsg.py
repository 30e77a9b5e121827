"""The kernel log as a stream of records: what a record says, what is not believed, and that listening goes on."""

from __future__ import annotations

import os
import queue
import socket
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.host import kmsg
from fabricmon.host.live import LiveHost
from fabricmon.host.protocol import HostError, KernelMessage, Unsupported

PATIENCE = 120.0


def test_a_record() -> None:
    text = b"mlx5_core 0000:17:00.0: a text; with a semicolon"
    record = b"3,1234,987654321,-;" + text + b"\n SUBSYSTEM=pci\n DEVICE=+pci:0000:17:00.0\n"
    assert kmsg.decode(record) == KernelMessage(
        sequence=1234, level=3, uptime=987.654321,
        text="mlx5_core 0000:17:00.0: a text; with a semicolon", device="0000:17:00.0",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (b"6,1,2,-;plain\n", "plain"),
        (b"6,1,2,c,caller=T12;with further fields\n", "with further fields"),
        (b"6,1,2,-;odd \xff byte\n", "odd \ufffd byte"),
        (b"6,1,2,-;\n", ""),
        (b"4,1,2,-;usb\n SUBSYSTEM=usb\n DEVICE=c189:1\n", "usb"),
    ],
)
def test_records_with_other_things_in_them(record: bytes, text: str) -> None:
    message = kmsg.decode(record)
    assert message is not None
    assert (message.text, message.device) == (text, "")


@pytest.mark.parametrize("record", [b"", b"12,1,2,-;a process wrote it\n", b"30,1,2,-;a daemon\n", b"none", b"6,1,2"])
def test_what_the_kernel_did_not_write_is_not_believed(record: bytes) -> None:
    assert kmsg.decode(record) is None


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_an_error(record: bytes) -> None:
    kmsg.decode(record)
    kmsg.decode(b"6,1,2,-;" + record)


class Log:
    """Stands for /dev/kmsg: a socket that keeps records apart, as the device does."""

    def __init__(self) -> None:
        self.ends: list[socket.socket] = []
        self.refused = 0

    def open(self) -> int:
        if self.refused:
            self.refused -= 1
            raise HostError(kmsg.PATH, 1, "Operation not permitted")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        theirs.setblocking(False)
        self.ends.append(ours)
        return theirs.detach()

    def write(self, *texts: str) -> None:
        for number, text in enumerate(texts):
            self.ends[-1].send(f"6,{number},1000000,-;{text}\n".encode())


@pytest.fixture
def log() -> Iterator[Log]:
    made = Log()
    yield made
    for end in made.ends:
        end.close()


def listening(log: Log) -> tuple[queue.Queue[KernelMessage | None], Callable[[], None]]:
    received: queue.Queue[KernelMessage | None] = queue.Queue()
    return received, kmsg.watch(received.put, log.open)


def test_messages_come_in_their_order(log: Log) -> None:
    received, stop = listening(log)
    log.write("one", "two", "three")
    found = [received.get(timeout=PATIENCE) for _ in range(3)]
    assert [m.text for m in found if m] == ["one", "two", "three"]
    stop()
    with pytest.raises(BrokenPipeError):
        log.write("after the end")


def test_a_log_that_ends_is_opened_again_and_the_gap_is_reported(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kmsg, "_REOPEN_SECONDS", 0.01)
    received, stop = listening(log)
    log.refused = 2
    log.ends[0].close()
    assert received.get(timeout=PATIENCE) is None
    while len(log.ends) == 1:
        time.sleep(0.005)
    log.write("again")
    message = received.get(timeout=PATIENCE)
    assert message is not None
    assert message.text == "again"
    stop()


def test_messages_that_were_there_before_are_marked(log: Log) -> None:
    received: queue.Queue[KernelMessage | None] = queue.Queue()

    def open_whole() -> int:
        descriptor = log.open()
        log.write("one", "two")
        return descriptor

    stop = kmsg.watch(received.put, log.open, open_whole)
    found = [received.get(timeout=PATIENCE) for _ in range(2)]
    assert [(m.text, m.earlier) for m in found if m] == [("one", True), ("two", True)]
    message = None
    while message is None or message.earlier:  # the first pass ends once there is nothing more to read
        log.write("three")
        message = received.get(timeout=PATIENCE)
    assert message.text == "three"
    stop()


def test_a_log_that_may_not_be_read_is_an_error_at_once(log: Log) -> None:
    log.refused = 1
    with pytest.raises(HostError, match="not permitted"):
        kmsg.watch(print, log.open)


def test_another_machines_tree_has_no_kernel_log(tmp_path: object) -> None:
    with pytest.raises(Unsupported):
        LiveHost(str(tmp_path), str(tmp_path)).watch_kmsg(print)


@pytest.mark.netns
def test_the_real_kernel_tells_what_happens_from_now_on(require: Callable[..., str]) -> None:
    """The kernel says that an interface starts to listen to everything; what a process writes does not count."""
    require("netns")
    try:
        os.close(kmsg.open_log())
    except HostError as error:
        pytest.skip(f"the kernel log is not for this process: {error}")
    received: queue.Queue[KernelMessage | None] = queue.Queue()
    host = LiveHost()
    stop = host.watch_kmsg(received.put)
    script = (
        "echo '<2>NVRM: Xid (PCI:0000:1b:00): 79, forged' > /dev/kmsg;"
        "ip link add fabtest type veth && ip link set fabtest promisc on && ip link set fabtest promisc off"
    )
    subprocess.run(["unshare", "--net", "sh", "-c", script], check=True)
    texts: list[str] = []
    while not any("fabtest" in text for text in texts):
        message = received.get(timeout=PATIENCE)
        assert message is not None
        texts.append(message.text)
    assert not any("forged" in text for text in texts)
    stop()
    host.close()
