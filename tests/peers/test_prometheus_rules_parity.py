"""One recording through this engine and, by the exported rules, through Prometheus: the same symptoms at the same time.

Allowed are the differences that docs/prometheus.md explains, by rule and in seconds.
"""

from __future__ import annotations

import pytest

from fabricmon.sim.faults import hosts, links
from fabricmon.sim.layout import Layout
from fabricmon.sim.script import InjectedFault
from tests.export.parity import compared, under_prometheus, under_victoria_metrics
from tests.export.recording import STEP, record
from tests.rigs.daemons import Daemon, fetch, free_port

pytestmark = pytest.mark.peer

NEAR = {"packet_loss", "congestion"}
"""Rules of which single components may differ: a ruler has no window of 10 s, and knows no length of a wait tick."""


HARD = ("link_down", "link_flapping", "link_errors", "link_degraded", "nic_fault", "agent_silent")


REPLAYED = tuple(rule for rule in HARD if rule != "link_down")
"""link_down is followed under vmalert as it runs, in test_prometheus_rules_source.py."""


def port(layout: Layout, host: int, number: int) -> str:
    return layout.port_name(int(layout.first[host]) + number)


def faults(layout: Layout) -> list[InjectedFault]:
    return [
        links.slow_link(layout, port(layout, 3, 2), 300),
        links.link_down(layout, port(layout, 0, 1), 400, 900),
        links.link_flap(layout, port(layout, 1, 2), 500),
        links.link_errors(layout, port(layout, 2, 0), 600, 1e-11),
        hosts.nic_lost(layout, port(layout, 4, 1), 700),
        hosts.host_crash(layout, layout.hosts[5], 1200),
    ]


def look_alikes(layout: Layout) -> list[InjectedFault]:
    return [
        links.link_flap(layout, port(layout, 1, 2), 500, downs=(0, 300)),
        links.link_errors(layout, port(layout, 2, 0), 600, 1e-18),
        links.link_down(layout, port(layout, 0, 0), 900, 2),
    ]


@pytest.fixture(scope="module")
def layout() -> Layout:
    return Layout.named("rail-optimised", units=1, hosts=6, rails=3, spines=2, gpus=2)


def test_same_symptoms_on_the_same_components_within_one_interval(layout, require, tmp_path):
    tool = require("promtool", "evaluates the exported rules")
    recording = record(layout, faults, 1800.0)
    found = compared(recording, under_prometheus(recording, tool, tmp_path))
    ours = {(d.rule, str(d.component)) for d in found if d.engine is not None}
    assert {rule for rule, _ in ours} >= set(HARD)
    theirs = {(d.rule, str(d.component)) for d in found if d.ruler is not None}
    assert {key for key in ours ^ theirs if key[0] not in NEAR} == set()
    lossy, said = ({key for key in keys if key[0] == "packet_loss"} for keys in (ours, theirs))
    assert len(lossy & said) >= 0.8 * len(lossy | said)
    late = {(d.rule, str(d.component)): d.late for d in found if d.late is not None}
    assert {key: seconds for key, seconds in late.items() if abs(seconds) > STEP and key[0] not in NEAR} == {}


def test_same_symptoms_under_victoria_metrics(layout, require, tmp_path):
    database, vmalert = (require(name, "evaluates the exported rules") for name in ("victoria-metrics", "vmalert"))
    recording = record(layout, faults, 1800.0)
    address = f"127.0.0.1:{free_port()}"
    command = [database, f"-storageDataPath={tmp_path / 'vm'}", f"-httpListenAddr={address}", "-retentionPeriod=1y",
               "-search.latencyOffset=1s"]  # fmt: skip
    with Daemon(tmp_path / "victoria-metrics.log", command) as server:
        server.wait_until("VictoriaMetrics", lambda: fetch(f"http://{address}/health"))
        firing = under_victoria_metrics(recording, f"http://{address}", vmalert, tmp_path, REPLAYED)
    found = [d for d in compared(recording, firing) if d.rule in REPLAYED]
    assert [d for d in found if d.engine is None or d.ruler is None] == []
    # increase() there counts the first value of a young series as a rise: a flap may be told a down earlier
    assert [d for d in found if d.late is None or abs(d.late) > STEP * (4 if d.rule == "link_flapping" else 1)] == []


def test_nothing_of_look_alikes_in_either(layout, require, tmp_path):
    tool = require("promtool", "evaluates the exported rules")
    recording = record(layout, look_alikes, 1500.0)
    assert compared(recording, under_prometheus(recording, tool, tmp_path)) == []
