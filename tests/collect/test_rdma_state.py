"""The infiniband_state collector: what the texts of sysfs mean, and what is unknown."""

from __future__ import annotations

import contextlib
import errno
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.collect import COLLECTORS
from fabricmon.collect.infiniband_state import InfinibandStateSession
from fabricmon.collect.parse import attributes
from fabricmon.host.live import LiveHost
from fabricmon.host.protocol import HostError, Link, RdmaDevice, RdmaPort
from fabricmon.model import Event
from tests.host.trees import build_hca_tree, put

infiniband_state = COLLECTORS["infiniband_state"]

PORT = "class/infiniband/mlx5_0/ports/1"


@pytest.mark.parametrize(
    ("text", "rate", "lanes"),
    [
        ("400 Gb/sec (4X NDR)\n", 50e9, 4),
        ("800 Gb/sec (4X XDR)", 100e9, 4),
        ("200 Gb/sec (2X NDR)", 25e9, 2),
        ("2.5 Gb/sec (1X SDR)\n", 312.5e6, 1),
        ("56 Gb/sec (4X FDR)", 7e9, 4),
        ("100 Gb/sec (4X EDR)", 12.5e9, 4),
        ("40 Gb/sec (4X)", 5e9, 4),
        ("1200 Gb/sec (12X NDR)", 150e9, 12),
    ],
)
def test_rates(text: str, rate: float, lanes: int) -> None:
    assert attributes.rate(text) == (rate, lanes)


@given(st.text(max_size=40))
def test_no_text_but_a_rate_is_a_rate(text: str) -> None:
    for parse in (attributes.rate, attributes.state, attributes.phys_state, attributes.identifier):
        with contextlib.suppress(ValueError):  # nothing else may come out
            parse(text)


@pytest.mark.parametrize(
    "text", ["", "Gb/sec", "-5 Gb/sec (4X NDR)", "400 Gb/sec", "four Gb/sec (4X)", "1e9 Gb/sec (4X)"]
)
def test_odd_rates(text: str) -> None:
    with pytest.raises(ValueError, match="400 Gb/sec"):
        attributes.rate(text)


def test_states() -> None:
    assert attributes.state("4: ACTIVE\n") == 4
    assert attributes.state("5: ACTIVE_DEFER") == 5
    assert attributes.phys_state("5: LinkUp") == 5
    assert attributes.phys_state("3: Disabled\n") == 3
    for odd in ("<unknown>", "", "ACTIVE", "99: <unknown>", "-1: x"):
        with pytest.raises(ValueError, match="expected"):
            attributes.state(odd)
    assert attributes.identifier("0x1a\n") == 26
    assert attributes.identifier("0x0") == 0


def open_one(host: LiveHost, **config: object) -> InfinibandStateSession:
    (session,) = infiniband_state.open(host, infiniband_state.config(**config)).sessions().values()
    return session


def row(session: InfinibandStateSession) -> dict[str, float]:
    reading = session.read()
    (part,) = reading.parts
    assert len(part.components) == 1
    return dict(zip(part.columns, reading.values, strict=True))


def test_a_port_that_is_up(tmp_path: Path) -> None:
    values = build_hca_tree(tmp_path, devices=1)
    assert row(open_one(LiveHost(str(tmp_path)))) == {
        "state": 4,
        "phys_state": 5,
        "lid": 0x10,
        "sm_lid": 1,
        "rate": 50e9,
        "width": 4,
        "link_downed": values["/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed"],
    }


def test_the_rate_of_a_port_that_is_down_is_unknown_and_comes_back_at_once(tmp_path: Path) -> None:
    build_hca_tree(tmp_path, devices=1)
    session = open_one(LiveHost(str(tmp_path)))
    assert row(session)["rate"] == 50e9
    put(tmp_path / PORT / "state", "1: DOWN\n")
    put(tmp_path / PORT / "phys_state", "2: Polling\n")
    put(tmp_path / PORT / "rate", "40 Gb/sec (4X QDR)\n")
    down = row(session)
    assert (down["state"], down["phys_state"]) == (1, 2)
    assert math.isnan(down["rate"])
    assert math.isnan(down["width"])
    put(tmp_path / PORT / "state", "4: ACTIVE\n")
    put(tmp_path / PORT / "rate", "200 Gb/sec (2X NDR)\n")
    up = row(session)
    assert (up["rate"], up["width"]) == (25e9, 2)


@pytest.mark.parametrize(
    ("name", "text", "unknown"),
    [
        ("state", "nonsense\n", ("state",)),
        ("phys_state", "0: <unknown>\n", ("phys_state",)),
        ("lid", "0xzz\n", ("lid",)),
        ("rate", "fast\n", ("rate", "width")),
        ("counters/link_downed", "N/A (no PMA)\n", ("link_downed",)),
        ("sm_lid", "", ("sm_lid",)),
    ],
)
def test_an_odd_file_costs_its_own_value_only(tmp_path: Path, name: str, text: str, unknown: tuple[str, ...]) -> None:
    build_hca_tree(tmp_path, devices=1)
    put(tmp_path / PORT / name, text)
    session = open_one(LiveHost(str(tmp_path)))
    for _ in range(2):  # said again in each run, also where the file is not read in each
        reading = session.read()
        assert [f.source for f in reading.faults] == [f"/sys/class/infiniband/mlx5_0/ports/1/{name}"]
        found = dict(zip(reading.parts[0].columns, reading.values, strict=True))
        assert tuple(c for c, v in found.items() if math.isnan(v)) == unknown


def test_missing_files_are_unknown_and_no_fault(tmp_path: Path) -> None:
    put(tmp_path / PORT / "state", "4: ACTIVE")
    reading = open_one(LiveHost(str(tmp_path))).read()
    assert reading.faults == ()
    assert reading.values[0] == 4
    assert all(math.isnan(v) for v in reading.values[1:])


def test_ethernet_has_no_lids(tmp_path: Path) -> None:
    build_hca_tree(tmp_path, devices=1)
    put(tmp_path / PORT / "link_layer", "Ethernet\n")
    put(tmp_path / PORT / "sm_lid", "0x0\n")
    session = open_one(LiveHost(str(tmp_path)))
    assert session.read().queries == 2 + 2 + 2 + 1  # state, phys_state and rate at 2 each, link_downed
    found = row(session)
    assert math.isnan(found["lid"])
    assert math.isnan(found["sm_lid"])
    assert found["state"] == 4


class Kernel(LiveHost):
    answer: RdmaPort | HostError = RdmaPort(4, 5, 7, 1, "ib0")
    now = 0.0
    rates = 0

    def monotonic(self) -> float:
        return self.now

    def rdma_devices(self) -> list[RdmaDevice]:
        return [RdmaDevice(0, "mlx5_0", 1, "", "", "ib")]

    def rdma_port(self, device: int, port: int) -> RdmaPort:
        if isinstance(self.answer, HostError):
            raise self.answer
        return self.answer

    def read(self, path: str, limit: int = 65536) -> bytes:
        assert not path.endswith("state"), "netlink has said it"
        self.rates += path.endswith("/rate")
        return super().read(path, limit)


def test_one_question_over_netlink_and_the_rate_seldom(tmp_path: Path) -> None:
    build_hca_tree(tmp_path, devices=1)
    host = Kernel(str(tmp_path))
    session = open_one(host)
    assert session.read().queries == 5 + 1 + 5  # PORT_GET, link_downed, rate (docs/methods.md#firmware-commands)
    for _ in range(119):
        host.now += 1
        assert session.read().queries == 5 + 1
    assert host.rates == 1
    host.now += 1
    session.read()
    assert host.rates == 2
    host.answer = RdmaPort(2, 5, 7, 0, "ib0")
    assert row(session)["sm_lid"] == 0
    assert host.rates == 3


def test_a_port_that_does_not_answer_is_unknown(tmp_path: Path) -> None:
    build_hca_tree(tmp_path, devices=1)
    host = Kernel(str(tmp_path))
    session = open_one(host)
    host.answer = HostError("RDMA PORT_GET device 0 port 1", errno.ETIMEDOUT, "no answer within 2 s")
    reading = session.read()
    assert math.isnan(reading.values[0])
    assert reading.faults[0].error == "no answer within 2 s"
    assert reading.values[6] == 17  # link_downed is a file and answered


class Witnessed(Kernel):
    """A kernel with link events."""

    state = {"carrier": 1, "up": True, "downs": 1}
    notify: Callable[[Link | None], None]
    dumps = 0

    def links(self) -> list[Link]:
        self.dumps += 1
        return [self.link()]

    def link(self) -> Link:
        carrier, up = int(self.state["carrier"]), bool(self.state["up"])
        oper, downs = "up" if carrier else "down", int(self.state["downs"])
        return Link(10, "ib0", oper, up, carrier, 2, downs, 4092, None, "", "", "", "", {})

    def watch_links(self, notify: Callable[[Link | None], None]) -> Callable[[], None]:
        self.notify = notify
        return lambda: None


class Watched:
    """A collector that listens, with one port; `kicked` counts the reads it asked for at once."""

    def __init__(self, host: Witnessed) -> None:
        self.host = host
        self.kicked = 0
        self.collector = infiniband_state.open(host, infiniband_state.config())
        (self.session,) = self.collector.sessions().values()
        self.collector.watch(self._told)

    def _told(self, event: Event | None) -> None:
        assert event is None
        self.kicked += 1

    def read(self, seconds: float = 1.0) -> tuple[float, int]:
        """State and firmware commands of a read so much later."""
        self.host.now += seconds
        reading = self.session.read()
        return reading.values[0], reading.queries


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    build_hca_tree(tmp_path, devices=1)
    return Watched(Witnessed(str(tmp_path)))


def test_a_port_whose_interface_stands_is_asked_seldom_and_its_values_stand(watched: Watched) -> None:
    assert watched.read() == (4, 11)
    values = watched.session.read().values
    asked = [watched.read() for _ in range(29)]
    assert asked == [(4, 1 if second in (10, 20) else 0) for second in range(1, 30)], "link_downed every ten seconds"
    assert watched.session.read().values == values
    assert watched.read() == (4, 6)
    assert watched.host.dumps == 1


def test_a_link_that_went_down_unseen_is_asked_and_its_rate_is_known_anew(tmp_path: Path) -> None:
    build_hca_tree(tmp_path, devices=1)
    watched = Watched(Witnessed(str(tmp_path)))
    watched.read()
    put(tmp_path / PORT / "counters/link_downed", "18\n")
    put(tmp_path / PORT / "rate", "200 Gb/sec (2X NDR)\n")
    assert [watched.read()[1] for _ in range(9)] == [0] * 9
    assert watched.read()[1] == 1 + 5 + 5, "link_downed, the port, its rate"
    found = row(watched.session)
    assert (found["link_downed"], found["rate"]) == (18, 25e9)


def test_the_interface_of_an_ethernet_port_tells_of_its_link_by_itself(tmp_path: Path) -> None:
    build_hca_tree(tmp_path, devices=1)
    put(tmp_path / PORT / "link_layer", "Ethernet\n")
    watched = Watched(Witnessed(str(tmp_path)))
    watched.read()
    assert [watched.read()[1] for _ in range(29)] == [0] * 29
    assert watched.read()[1] == 2 + 1


def test_a_change_of_the_interface_is_a_question_at_once(watched: Watched) -> None:
    watched.read()
    watched.host.notify(watched.host.link())
    assert (watched.kicked, watched.read()) == (0, (4, 0)), "the same again is no change"
    watched.host.state = {"carrier": 0, "up": True, "downs": 2}
    watched.host.answer = RdmaPort(1, 2, 7, 1, "ib0")
    watched.host.notify(watched.host.link())
    assert (watched.kicked, watched.read(0.01)[0]) == (1, 1)
    assert [watched.read()[0] for _ in range(3)] == [1] * 3
    assert watched.read()[1] == 6, "a port that is down is asked each time"
    watched.host.state = {"carrier": 1, "up": True, "downs": 2}
    watched.host.answer = RdmaPort(4, 5, 7, 1, "ib0")
    watched.host.notify(watched.host.link())
    assert watched.read(0.01)[0] == 4
    assert watched.read() == (4, 0)


def test_a_flap_between_two_reads_is_a_question_too(watched: Watched) -> None:
    watched.read()
    for carrier, downs in ((0, 2), (1, 2)):
        watched.host.state = {"carrier": carrier, "up": True, "downs": downs}
        watched.host.notify(watched.host.link())
    assert watched.read()[1] == 6


@pytest.mark.parametrize("state", [{"carrier": 0, "up": True, "downs": 1}, {"carrier": 1, "up": False, "downs": 1}])
def test_an_interface_that_is_down_is_no_witness(watched: Watched, state: dict[str, int]) -> None:
    """InfiniBand works with its IPoIB interface down; then only the port is evidence."""
    watched.host.state = state
    watched.read()
    assert [watched.read()[1] for _ in range(3)] == [6, 6, 6]


def test_after_lost_messages_everything_is_looked_at_anew(watched: Watched) -> None:
    watched.read()
    watched.host.notify(None)
    assert watched.kicked == 1
    assert watched.read() == (4, 0)  # a new dump shows the interface as it was
    assert watched.host.dumps == 2
    watched.host.state = {"carrier": 1, "up": True, "downs": 7}
    watched.host.notify(None)
    assert watched.read() == (4, 6)


def test_a_port_that_did_not_answer_is_asked_again(watched: Watched) -> None:
    watched.host.answer = HostError("RDMA PORT_GET device 0 port 1", errno.ETIMEDOUT, "no answer within 2 s")
    assert math.isnan(watched.read()[0])
    watched.host.answer = RdmaPort(4, 5, 7, 1, "ib0")
    assert watched.read()[0] == 4


def test_a_host_without_link_events_is_asked_each_time(tmp_path: Path) -> None:
    build_hca_tree(tmp_path, devices=1)
    host = LiveHost(str(tmp_path))
    collector = infiniband_state.open(host, infiniband_state.config())
    collector.watch(lambda event: None)()
    (session,) = collector.sessions().values()
    assert session.read().queries > 0
    assert session.read().queries > 0
