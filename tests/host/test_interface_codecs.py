"""Ethtool and dcbnl from bytes: a kernel's answers are understood, and no bytes raise anything but NetlinkError."""

from __future__ import annotations

import errno
import mmap
import os
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.host.ethtool_statistics import DriverStatistics, StatisticsAsker
from fabricmon.host.live import LiveHost
from fabricmon.host.messages import dcb, ethtool, netlink
from fabricmon.host.messages.netlink import NetlinkError
from fabricmon.host.protocol import HostError, Unsupported
from fabricmon.host.protocol.interfaces import Dcb, Fec, LinkState, Pause

u64 = st.integers(0, 2**64 - 1)
counts = st.lists(u64, max_size=9).map(tuple)
bytes8 = st.tuples(*[st.integers(0, 255)] * 8)


def number(kind: int, value: int, size: int) -> bytes:
    return netlink.attribute(kind, struct.pack({1: "=B", 2: "=H", 4: "=I", 8: "=Q"}[size], value))


def answer(command: int, *attributes: bytes) -> bytes:
    return struct.pack("=BBxx", command, 1) + b"".join(attributes)


def array(kind: int, values: tuple[int, ...]) -> bytes:
    return netlink.attribute(kind, struct.pack(f"={len(values)}Q", *values))


@given(counts, counts, counts, st.none() | st.integers(0, 120))
def test_fec(corrected: tuple[int, ...], bad: tuple[int, ...], bits: tuple[int, ...], active: int | None) -> None:
    parts = [ethtool.header(1, "eth0")]
    if active is not None:
        parts.append(number(4, active, 4))
    parts.append(netlink.nested(5, array(2, corrected), array(3, bad), array(4, bits)))
    assert ethtool.decode_fec(answer(30, *parts)) == Fec(active, corrected, bad, bits)


def test_fec_of_a_driver_without_counts_is_unknown() -> None:
    empty = netlink.nested(5, netlink.attribute(2, b""), netlink.attribute(3, b""))
    assert ethtool.decode_fec(answer(30, ethtool.header(1, "eth0"), empty)) == Fec()


@given(
    st.booleans(),
    st.none() | st.integers(0, 10),
    st.none() | st.integers(0, 255),
    st.none() | st.integers(0, 2**32 - 1),
)
def test_link_state(link: bool, reason: int | None, detail: int | None, downs: int | None) -> None:
    parts = [number(2, link, 1)]
    parts += [number(kind, value, size) for kind, value, size in ((5, reason, 1), (6, detail, 1), (7, downs, 4))
              if value is not None]  # fmt: skip
    assert ethtool.decode_link_state(answer(6, *parts)) == LinkState(link, None, reason, detail, downs)


def test_pause_counts_are_distinguished() -> None:
    payload = answer(21, number(2, 0, 1), number(3, 1, 1), number(4, 0, 1),
                     netlink.nested(5, number(2, 11, 8), number(3, 22, 8)))  # fmt: skip
    assert ethtool.decode_pause(payload) == Pause(False, True, False, received=22, sent=11)
    assert ethtool.decode_pause(answer(21)) == Pause()


def test_standard_statistics_by_group_and_index() -> None:
    def group(which: int, *stats: tuple[int, int]) -> bytes:
        return netlink.nested(4, number(2, which, 4), *(netlink.nested(4, number(i, v, 8)) for i, v in stats))

    payload = answer(
        32, ethtool.header(2, "eth0"), group(0, (0, 5)), group(1, (4, 6), (12, 7), (60, 8)), group(3, (0, 9))
    )
    assert ethtool.decode_statistics(payload) == {
        "SymbolErrorDuringCarrier": 5,
        "FrameCheckSequenceErrors": 6,
        "OctetsReceivedOK": 7,
    }


@given(bytes8, bytes8, bytes8, st.integers(0, 255), st.integers(0, 65535), st.lists(st.tuples(
    st.integers(0, 255), st.integers(0, 65535), st.integers(0, 7)), max_size=12))  # fmt: skip
def test_dcb(
    bandwidth: tuple[int, ...], algorithm: tuple[int, ...], classes: tuple[int, ...], pfc: int, delay: int,
    apps: list[tuple[int, int, int]],
) -> None:  # fmt: skip
    ets = bytes((1, 8, 0, *bandwidth, *bytes(8), *algorithm, *classes, *bytes(24)))
    flow = struct.pack("=BBBxHxx16Q", 8, pfc, 0, delay, *range(16))
    table = [
        netlink.attribute(1, struct.pack("=BBH", selector, priority, protocol)) for selector, protocol, priority in apps
    ]
    payload = struct.pack("=BBxx", 0, 21) + netlink.attribute(1, b"eth0\0") + netlink.nested(
        13, netlink.attribute(1, ets), netlink.attribute(2, flow), netlink.nested(3, *table)
    ) + number(14, 9, 1)  # fmt: skip
    assert dcb.decode(payload) == Dcb(
        9, 8, pfc, delay, True, bandwidth, algorithm, classes, tuple(sorted(apps)), (), (), ()
    )


def test_dcb_of_a_driver_that_tells_nothing_is_unknown() -> None:
    assert dcb.decode(struct.pack("=BBxx", 0, 21)) == Dcb()
    with pytest.raises(NetlinkError, match="needed"):
        dcb.decode(struct.pack("=BBxx", 0, 21) + netlink.nested(13, netlink.attribute(2, bytes(3))))


@given(st.binary(max_size=200))
def test_no_bytes_break_the_decoders(data: bytes) -> None:
    for decode in (
        ethtool.decode_family,
        ethtool.decode_fec,
        ethtool.decode_link_state,
        ethtool.decode_pause,
        ethtool.decode_statistics,
        ethtool.decode_module,
        dcb.decode,
    ):
        for lead in (b"", bytes(4)):
            try:
                decode(lead + data)
            except NetlinkError:
                continue


def test_a_question_names_the_interface() -> None:
    (only,) = netlink.attributes(ethtool.header(1, "fabeth0", 4))
    assert dict(netlink.attributes(only[1])) == {2: b"fabeth0\0", 3: struct.pack("=I", 4)}
    assert dict(netlink.attributes(dcb.request("eth0")[4:])) == {1: b"eth0\0"}


def test_the_kernel_itself_answers() -> None:
    """Whatever this machine's loopback says, it is an answer or a plain refusal."""
    host = LiveHost()
    asks = host.interfaces
    assert asks.statistics_names("lo") == ()
    assert asks.standard_statistics("lo") == {}
    assert asks.link_state("lo").link in (True, None)
    for refused in (asks.fec, asks.pause, asks.dcb):
        with pytest.raises(HostError) as caught:
            refused("lo")
        assert caught.value.errno == errno.EOPNOTSUPP
        assert "lo" in str(caught.value)
    for ask in (asks.statistics_names, asks.fec, asks.dcb):
        with pytest.raises(HostError) as caught:
            ask("no-such-if")
        assert caught.value.errno == errno.ENODEV
    with pytest.raises(HostError, match="15 bytes"):
        asks.statistics_names("a-name-that-no-interface-can-have")
    host.close()


def test_statistics_of_another_number_are_asked_for_again() -> None:
    statistics = DriverStatistics()
    host = LiveHost()
    named = {k.name: names for k in host.links() if (names := statistics.names(k.name))}
    host.close()
    if not named:
        pytest.skip("no interface of this machine has statistics of its own")
    name, names = next(iter(named.items()))
    assert statistics.names(name) is names
    assert len(statistics.values(name, len(names))) == len(names)
    with pytest.raises(HostError) as caught:
        statistics.values(name, len(names) + 1)
    assert caught.value.errno == errno.EAGAIN


def test_an_answer_that_is_too_long_is_an_error_and_overwrites_nothing() -> None:
    """The kernel writes as many statistics as there are, whatever was expected."""
    end = memoryview(StatisticsAsker().answer)[-mmap.PAGESIZE - 8 :]
    with Path("/dev/zero").open("rb", buffering=0) as zeros:
        assert os.readv(zeros.fileno(), [end]) == 8, "the kernel stops where the page begins"
        with pytest.raises(OSError, match="Bad address"):
            os.readv(zeros.fileno(), [end[8:]])


def test_a_tree_of_another_machine_is_not_asked(tmp_path) -> None:
    host = LiveHost(str(tmp_path))
    for ask in (host.interfaces.statistics_names, host.interfaces.fec, host.interfaces.dcb, host.interfaces.pause):
        with pytest.raises(Unsupported, match="another machine"):
            ask("eth0")
    with pytest.raises(Unsupported):
        host.interfaces.neighbours()
