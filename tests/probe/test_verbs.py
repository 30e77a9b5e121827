"""Probes by queue pairs, without RDMA: what is offered, what is refused and why, and what the bytes mean."""

from __future__ import annotations

import errno
import ipaddress
import struct
import sys

import pytest

from fabricmon.agent.probing import next_hop, verbs
from fabricmon.agent.probing.backend import ProbeRow
from fabricmon.agent.probing.udp import UdpBackend
from fabricmon.host.messages import netlink
from fabricmon.host.protocol import HostError
from fabricmon.probe.packet import Offer
from fabricmon.probe.plan import OFFER, ProbePort, offered, plan
from fabricmon.probe.windows import WATERMARK, WINDOW, KernelTimes, ProbeWindows

ROWS = (ProbeRow("mlx5_0/1", "eth0", "mlx5_0", "1"), ProbeRow("eth9", "eth9"))


def addresses(rows):
    return {row.name: f"10.0.0.{len(row.name)}" for row in rows}


@pytest.mark.parametrize(
    "offer",
    [Offer("10.0.0.7", 9795), Offer("fd00::7", 9795), Offer("10.0.0.7", 1_234_567, "verbs"),
     Offer("fe80::7%12", 17, "verbs")],
)  # fmt: skip
def test_an_offer_is_read_as_it_was_written(offer):
    assert offered({OFFER: str(offer)}) == offer


@pytest.mark.parametrize("text", ["rdma/10.0.0.7:17", "verbs/10.0.0.7", "verbs/:17", "verbs/10.0.0.7:123456789"])
def test_an_offer_of_another_form_is_none(text):
    assert offered({OFFER: text}) is None


def test_probes_never_go_from_one_backend_to_another():
    ports = [ProbePort(f"n{n}", "mlx5_0/1", f"10.0.0.{n}", 17, "leaf", "0", backend="verbs" if n % 2 else "udp")
             for n in range(8)]  # fmt: skip
    made = plan(ports)
    assert len(made.flows) == 24
    assert all(made.ports[flow.source].backend == made.ports[flow.target].backend for flow in made.flows)


def test_without_the_extra_rdma_ports_are_refused_by_its_name_and_others_go_on(monkeypatch):
    monkeypatch.setitem(sys.modules, "ibverbs", None)
    backend = verbs.VerbsBackend(UdpBackend(9795, addresses), addresses)
    assert backend.offers(ROWS) == {"eth9": Offer("10.0.0.4", 9795)}
    assert "pip install 'fabricmon[verbs]'" in backend.refused()["mlx5_0/1"]
    assert "ibverbs" in backend.refused()["mlx5_0/1"]


class Library:
    """A library with one device, which cannot be opened."""

    name = "mlx5_0"

    def get_device_list(self):
        return [self]

    def open(self):
        raise OSError(errno.EACCES, "permission")


def test_a_device_that_cannot_be_opened_and_one_that_is_not_there_are_refused_with_the_reason():
    backend = verbs.VerbsBackend(UdpBackend(9795, addresses), addresses, Library)
    backend.offers((*ROWS, ProbeRow("mlx5_1/1", "eth1", "mlx5_1", "1")))
    assert backend.refused() == {
        "mlx5_0/1": "the uverbs device of mlx5_0 cannot be opened: Permission denied",
        "mlx5_1/1": "mlx5_1 has no uverbs device, or it is not in the container",
    }


def test_the_sender_is_read_from_the_header_of_either_ip_version():
    four = bytes(20) + struct.pack("!BBHHHBBH4s4s", 0x45, 26 << 2, 116, 0, 0, 64, 17, 0, bytes([10, 0, 0, 1]), bytes(4))
    assert verbs.sender_of(four, True) == (verbs.gid_of("10.0.0.1"), 26 << 2)
    six = struct.pack("!IHBB", 6 << 28 | 104 << 20, 0, 17, 64) + ipaddress.ip_address("fe80::7").packed + bytes(16)
    assert verbs.sender_of(six, False) == (verbs.gid_of("fe80::7%12"), 104)


def kernel(state, gateway=None, error=0):
    """Answers to the two questions on a way."""

    def ask(where, kind, payload):
        if where == "route":
            attributes = netlink.attribute(4, struct.pack("=I", 3))
            return [bytes(12) + attributes + (netlink.attribute(5, gateway) if gateway else b"")]
        if error:
            raise HostError(where, error, "error")
        asked = dict(netlink.attributes(payload[12:]))[1]
        assert asked == (gateway or bytes([10, 0, 0, 2]))
        return [struct.pack("=BxxxiHBB", 2, 3, state, 0, 1)]

    return ask


@pytest.mark.parametrize(("state", "known"), [(0x02, True), (0x04, True), (0x80, True), (0x01, False), (0x20, False)])
@pytest.mark.parametrize("gateway", [None, bytes([10, 0, 0, 254])])
def test_a_way_is_known_when_its_next_hop_is(state, known, gateway):
    assert next_hop.known(kernel(state, gateway), "10.0.0.1", "10.0.0.2") is known


def test_no_entry_is_an_unknown_way_an_old_kernel_is_not_asked_and_no_route_is_an_error():
    assert next_hop.known(kernel(0, error=errno.ENOENT), "10.0.0.1", "10.0.0.2") is False
    assert next_hop.known(kernel(0, error=errno.EOPNOTSUPP), "10.0.0.1", "10.0.0.2") is True
    with pytest.raises(OSError, match="error"):
        next_hop.known(kernel(0, error=errno.ENETUNREACH), "10.0.0.1", "10.0.0.2")


def test_by_the_programs_clock_the_delays_of_the_hosts_are_not_known_apart():
    windows = ProbeWindows(0.0)
    windows.sent(b"c", 1, 1000, 1.0)
    windows.left(b"c", KernelTimes(program=2000))
    windows.first(b"c", KernelTimes(program=52_000), 60_000, 0)
    windows.second(b"c", 20e-6)
    flow = windows.close(WINDOW + WATERMARK)[0].flows[1]
    assert flow.clock == "program"
    assert flow.rtt[0] == pytest.approx(30e-6)
    assert flow.own != flow.own
    assert flow.peer != flow.peer
