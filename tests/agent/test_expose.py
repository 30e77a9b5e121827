"""/metrics: what is known is there once, with the catalogue's name and type; what is unknown is not there."""

from __future__ import annotations

import gzip
import math
import subprocess
from array import array
from collections.abc import Callable

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from fabricmon.agent.metrics.collectors import CollectorFamilies
from fabricmon.agent.metrics.family_writer import FamilyWriter, number
from fabricmon.agent.metrics.hardware import MAX_RAW, MetricsPage
from fabricmon.agent.readings.status import SEARCH, DeviceStatus
from fabricmon.catalogue import CATALOGUE
from fabricmon.model import Component, Identity, Inventory, Kind, Part, Snapshot
from fabricmon.runtime.exposition import Format, negotiate
from tests.agent.fakes import FakeCollector, FakeSession, Running, until

IDENTITY = Identity("host-007", "b", "a", "0.1.0", 1.0)


def snapshot(*parts: Part, values: list[float], taken: float = 100.0) -> Snapshot:
    return Snapshot(Inventory(1, IDENTITY, parts), 1, 1.0, [taken] * len(parts), array("d", values))


def port(name: str, **labels: str) -> Component:
    device, _, number = name.partition("/")
    return Component(name, {"device": device, "port": number, **labels})


def text(s: Snapshot, now: float = 101.0, page: MetricsPage | None = None) -> str:
    return b"".join((page or MetricsPage(s.inventory)).render(s, now, Format.TEXT)).decode()


def samples(page: str) -> dict[str, float]:
    return {
        f"{x.name}{sorted(x.labels.items())}": x.value for family in parse_text(page) for x in family.samples
    }


def test_values_have_the_catalogues_name_type_and_source() -> None:
    part = Part("infiniband", Kind.PORT, ("symbol_errors", "rcv", "state"), (port("mlx5_0/1"),))
    page = text(snapshot(part, values=[3.0, 4e18, 4.0]))
    assert '# TYPE fabricmon_port_symbol_errors_total counter\n' in page
    assert 'fabricmon_port_symbol_errors_total{device="mlx5_0",port="1"} 3\n' in page
    assert 'fabricmon_port_rcv_bytes_total{device="mlx5_0",port="1"} 4000000000000000000\n' in page
    assert '# TYPE fabricmon_port_state gauge\n' in page
    help_line = next(line for line in page.splitlines() if line.startswith("# HELP fabricmon_port_rcv_bytes_total"))
    assert "port_rcv_data" in help_line  # what people search for


def test_unknown_values_and_families_without_any_are_left_out() -> None:
    part = Part("infiniband", Kind.PORT, ("symbol_errors", "rcv"), (port("a/1"), port("b/1")))
    page = text(snapshot(part, values=[math.nan, math.nan, math.nan, 5.0]))
    assert "symbol_errors" not in page
    assert 'device="a"' not in page.replace("fabricmon_port_info", "").split("fabricmon_port_rcv_bytes_total")[1]
    assert 'fabricmon_port_rcv_bytes_total{device="b",port="1"} 5\n' in page


def test_a_value_grown_stale_is_unknown() -> None:
    part = Part("infiniband", Kind.PORT, ("symbol_errors",), (port("a/1"),), period=20.0)
    s = snapshot(part, values=[1.0], taken=100.0)
    page = MetricsPage(s.inventory)
    assert "symbol_errors" in text(s, 159.0, page)
    assert "symbol_errors" not in text(s, 161.0, page)
    s.taken[0] = 161.0
    assert "symbol_errors" in text(s, 162.0, page)
    s.taken[0] = math.nan
    assert "symbol_errors" not in text(s, 162.0, page)


def test_saturated_counters_are_reported_and_counted_and_unreadable_ones_are_neither() -> None:
    top = CATALOGUE["symbol_errors"].top
    columns = ("symbol_errors", "link_downed", "rcv_errors")
    part = Part("infiniband", Kind.PORT, columns, (port("a/1"), port("b/1"), port("c/1")))
    nan = math.nan
    got = samples(text(snapshot(part, values=[top, 255.0, 1.0, top - 1, 1.0, nan, nan, nan, nan])))
    at_top = {k: v for k, v in got.items() if k.startswith("fabricmon_port_saturated")}
    assert at_top == {
        "fabricmon_port_saturated[('counter', 'symbol_errors'), ('device', 'a'), ('port', '1')]": 1.0,
        "fabricmon_port_saturated[('counter', 'link_downed'), ('device', 'a'), ('port', '1')]": 1.0,
    }
    counts = {k: v for k, v in got.items() if k.startswith("fabricmon_port_counters_saturated")}
    assert counts == {
        "fabricmon_port_counters_saturated[('device', 'a'), ('port', '1')]": 2.0,
        "fabricmon_port_counters_saturated[('device', 'b'), ('port', '1')]": 0.0,
    }


def test_raw_counters_share_one_bounded_family() -> None:
    columns = tuple(f"raw:hw_counters/new_{n}" for n in range(MAX_RAW + 5))
    page = text(snapshot(Part("infiniband", Kind.PORT, columns, (port("a/1"),)), values=[1.0] * len(columns)))
    assert page.count("\nfabricmon_port_raw{") == MAX_RAW
    assert "# TYPE fabricmon_port_raw untyped\n" in page
    assert 'fabricmon_port_raw{device="a",directory="hw_counters",file="new_0",port="1"} 1\n' in page
    assert "fabricmon_raw_counters_left_out 5\n" in page


def test_the_info_metric_joins_what_all_collectors_know_of_a_row() -> None:
    one = Part("infiniband", Kind.PORT, ("state",), (port("a/1", firmware='28.39 "beta"\\'),))
    two = Part("ethernet", Kind.PORT, ("carrier",), (Component("a/1", {"netdev": "eth0", "pci-slot": "0000:01"}),))
    got = [x for f in parse_text(text(snapshot(one, two, values=[4.0, 1.0]))) for x in f.samples]
    info = [x.labels for x in got if x.name == "fabricmon_port_info"]
    assert info == [{"device": "a", "port": "1", "firmware": '28.39 "beta"\\', "netdev": "eth0", "pci_slot": "0000:01"}]
    assert {"device": "a", "port": "1"} in [x.labels for x in got if x.name == "fabricmon_port_carrier"]


def test_a_column_that_two_parts_hold_is_one_series_of_the_faster() -> None:
    slow = Part("infiniband", Kind.PORT, ("link_downed",), (port("a/1"),), 10.0)
    fast = Part("infiniband_state", Kind.PORT, ("link_downed",), (port("a/1"),), 1.0)
    page = text(snapshot(slow, fast, values=[3.0, 4.0]))
    assert page.count("fabricmon_port_link_downed_total{") == 1
    assert 'fabricmon_port_link_downed_total{device="a",port="1"} 4\n' in page


def test_only_changed_values_change_the_page() -> None:
    part = Part("infiniband", Kind.PORT, ("symbol_errors", "rcv"), (port("a/1"), port("b/1")))
    s = snapshot(part, values=[1.0, 2.0, 3.0, 4.0])
    page = MetricsPage(s.inventory)
    first = text(s, page=page)
    s.values[2] = 9.0
    line = 'symbol_errors_total{device="b",port="1"}'
    assert text(s, page=page) == first.replace(f"{line} 3\n", f"{line} 9\n") != first
    s.values[2] = math.nan
    assert text(s, page=page) == text(s)
    s.values[2] = 3.0
    assert text(s, page=page) == first


cells = st.floats() | st.integers(0, 2**64).map(float)


@given(st.lists(st.lists(cells, min_size=6, max_size=6), min_size=1, max_size=4))
def test_a_page_that_was_used_before_equals_a_new_one(history: list[list[float]]) -> None:
    for lines in (1, 3, 64):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("fabricmon.agent.metrics.hardware.PIECE", lines)
            check_page(history)


def check_page(history: list[list[float]]) -> None:
    part = Part("infiniband", Kind.PORT, ("symbol_errors", "rcv", "rate"), (port("a/1"), port("b/1")))
    s = snapshot(part, values=[0.0] * 6)
    page = MetricsPage(s.inventory)
    for values in history:
        s.values[:] = array("d", values)
        assert text(s, page=page) == text(s)


@given(cells)
def test_numbers_read_back_as_they_were(value: float) -> None:
    back = float(number(value)) if not math.isnan(value) else value
    assert math.isnan(value) or back == value


async def agent_page(**headers: str) -> tuple[bytes, dict[str, str]]:
    session = FakeSession("mlx5_0", (*CATALOGUE, "raw:hw_counters/novel"))
    session.values = [float(n) for n in range(len(session.values))]
    session.values[session.parts[0].columns.index("symbol_errors")] = 65535.0  # at its top
    async with Running(FakeCollector(mlx5_0=session), evaluate=False) as running:
        await running.agent.node.schedule.board.first_round.wait()
        async with (
            aiohttp.ClientSession(auto_decompress=False) as http,
            http.get(running.url("/metrics"), headers=headers) as answer,
        ):
            assert answer.status == 200
            return await answer.read(), dict(answer.headers)


async def test_both_parsers_read_every_counter_of_the_catalogue() -> None:
    body, headers = await agent_page(Accept="text/plain", **{"Accept-Encoding": "identity"})
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    plain = {f.name: f for f in parse_text(body.decode())}
    body, headers = await agent_page(
        Accept="application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3",
        **{"Accept-Encoding": "gzip"})
    assert headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert headers["Content-Encoding"] == "gzip"
    page = gzip.decompress(body).decode()
    assert page.endswith("# EOF\n")
    om = {f.name: f for f in parse_openmetrics(page)}
    assert plain.keys() == om.keys()
    for counter in CATALOGUE.values():
        name = counter.metric.removesuffix("_total") if counter.type == "counter" else counter.metric
        assert om[name].type == plain[name].type == counter.type, counter.name
        assert om[name].samples[0].value == plain[name].samples[0].value
    assert not any("node" in x.labels for f in om.values() for x in f.samples)


@pytest.mark.peer
async def test_promtool_finds_nothing_to_say(require: Callable[[str], object]) -> None:
    require("promtool")
    body, _ = await agent_page(Accept="text/plain", **{"Accept-Encoding": "identity"})
    done = subprocess.run(["promtool", "check", "metrics"], input=body, capture_output=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


async def test_collectors_tell_how_they_stand() -> None:
    body, _ = await agent_page(**{"Accept-Encoding": "identity"})
    got = samples(body.decode())
    of = "[('collector', 'fake')]"
    assert got[f"fabricmon_collector_success{of}"] == 1
    assert got[f"fabricmon_collector_hardware_queries{of}"] == 3
    assert got[f"fabricmon_collector_faults{of}"] == 0
    assert got[f"fabricmon_collector_last_success_timestamp_seconds{of}"] > 1.6e9
    assert any(name.startswith("fabricmon_build_info") for name in got)
    assert not any(name.startswith("fabricmon_collector_device") for name in got)  # none had trouble


def collector_samples(status: dict[tuple[str, str], DeviceStatus]) -> dict[str, float]:
    return samples(b"".join(FamilyWriter().pieces(CollectorFamilies(status, {}).families(), Format.TEXT)).decode())


def test_a_device_is_reported_by_name_from_its_first_trouble_on() -> None:
    status = {
        ("nvlink", SEARCH): DeviceStatus("nvlink", SEARCH, success=True, last_success=99.0),
        ("nvlink", "gpu0"): DeviceStatus("nvlink", "gpu0", success=True, last_success=7.0, duration=0.25),
        ("nvlink", "gpu1"): DeviceStatus(
            "nvlink", "gpu1", success=False, last_success=5.0, duration=0.5, troubled=True
        ),
    }
    got = collector_samples(status)
    assert got["fabricmon_collector_success[('collector', 'nvlink')]"] == 0
    assert got["fabricmon_collector_duration_seconds[('collector', 'nvlink')]"] == 0.75
    assert got["fabricmon_collector_last_success_timestamp_seconds[('collector', 'nvlink')]"] == 5.0  # the oldest
    of = "[('collector', 'nvlink'), ('device', 'gpu1')]"
    assert {k: v for k, v in got.items() if "device'" in k} == {
        f"fabricmon_collector_device_success{of}": 0, f"fabricmon_collector_device_faults{of}": 0,
    }
    status["nvlink", "gpu1"].last_success = math.nan  # never read: there is no oldest reading
    got = collector_samples(status)
    assert "fabricmon_collector_last_success_timestamp_seconds[('collector', 'nvlink')]" not in got


async def test_what_a_collector_counts_is_on_the_next_page() -> None:
    session, still = FakeSession("mlx5_0"), FakeSession("eth0")
    async with Running(FakeCollector(mlx5_0=session), FakeCollector("still", eth0=still)) as running:
        def page(name: str) -> float:
            page = b"".join(running.agent.api.metrics(Format.TEXT)).decode()
            return samples(page)[f"fabricmon_collector_{name}[('collector', 'fake')]"]

        await running.agent.node.schedule.board.first_round.wait()
        runs = page("runs_total")
        assert page("success") == 1
        session.error = OSError("gone")
        await until(lambda: session.reads > 3)
        assert page("success") == 0
        assert page("runs_total") > runs
        session.error = None
        reads = session.reads
        await until(lambda: session.reads > reads + 1)
        assert page("success") == 1


def test_a_collector_of_one_session_is_one_row_with_the_sessions_times() -> None:
    status = {
        ("ethernet", SEARCH): DeviceStatus("ethernet", SEARCH, success=True, last_success=1.0),
        ("ethernet", ""): DeviceStatus("ethernet", "", success=True, last_success=7.0, duration=0.5),
    }
    got = collector_samples(status)
    assert got["fabricmon_collector_last_success_timestamp_seconds[('collector', 'ethernet')]"] == 7.0
    assert got["fabricmon_collector_duration_seconds[('collector', 'ethernet')]"] == 0.5
    status["ethernet", SEARCH].success = False
    got = collector_samples(status)
    assert got["fabricmon_collector_success[('collector', 'ethernet')]"] == 0


@pytest.mark.parametrize(("accept", "expected"), [
    ("", Format.TEXT),
    ("*/*", Format.TEXT),
    ("text/plain", Format.TEXT),
    ("application/openmetrics-text", Format.OPENMETRICS),
    ("application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
     "text/plain;version=0.0.4;q=0.5,*/*;q=0.1", Format.OPENMETRICS),
    ("text/plain;version=1.0.0;q=0.9,application/openmetrics-text;version=1.0.0;q=0.1", Format.TEXT),
    ("application/openmetrics-text;version=0.0.1,text/plain;version=0.0.4", Format.TEXT),
    ("application/openmetrics-text;version=new,text/plain", Format.TEXT),
    ("application/openmetrics-text;version=1.0.0;escaping=dots", Format.OPENMETRICS),
    ("application/vnd.google.protobuf,application/json", Format.TEXT),
    (";;q=x,,=", Format.TEXT),
])
def test_the_format_is_the_one_asked_for(accept: str, expected: Format) -> None:
    assert negotiate(accept) is expected
