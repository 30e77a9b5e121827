"""A real Prometheus scrapes a real agent and a real server; its own tool has nothing to say about their pages."""

import subprocess

import pytest

from tests.rigs.daemons import fetch, fetch_json, wait_for

pytestmark = pytest.mark.peer


def test_both_are_up(prometheus):
    wait_for("both up", lambda: prometheus.value("sum(up)") == 2)


def test_every_sample_of_the_agents_page_is_stored(prometheus, daemons):
    wait_for("agent up", lambda: prometheus.value('up{job="agent"}') == 1)
    page = fetch(f"http://{daemons[0]}/metrics")
    lines = [line for line in page.splitlines() if line and not line.startswith("#")]
    # series that Prometheus adds about the scrape itself are not counted here
    assert prometheus.value('scrape_samples_scraped{job="agent"}') == pytest.approx(len(lines), rel=0.02)
    assert prometheus.value("count(fabricmon_port_xmit_bytes_total)") == 8


def test_port_that_is_down_has_a_state_and_no_rate(prometheus):
    wait_for("agent up", lambda: prometheus.value('up{job="agent"}') == 1)
    assert prometheus.value("count(fabricmon_port_state == 4)") == 7
    assert prometheus.value("count(fabricmon_port_state == 1)") == 1
    wait_for("rates read after that", lambda: prometheus.value("count(fabricmon_port_rate_bytes_per_second)") == 7)
    assert prometheus.value("count(fabricmon_port_rate_bytes_per_second == 50e9)") == 7


def test_incident_is_what_prometheus_has(prometheus):
    wait_for("server up", lambda: prometheus.value('up{job="server"}') == 1)
    (sample,) = prometheus.query("fabricmon_incident_confidence_ratio")
    assert sample["metric"]["kind"] == "link_down"
    assert "mlx5_3/1" in sample["metric"]["component"]


def test_server_counts_the_node_as_live(prometheus):
    wait_for("server up", lambda: prometheus.value('up{job="server"}') == 1)
    assert prometheus.value('sum(fabricmon_central_nodes{presence="live"})') == 1


@pytest.mark.parametrize("which", [0, 1], ids=["agent", "server"])
def test_promtool_finds_nothing_on_the_page(require, daemons, which):
    tool = require("promtool", "checks the page")
    page = fetch(f"http://{daemons[which]}/metrics")
    run = subprocess.run([tool, "check", "metrics"], input=page, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout + run.stderr) == (0, "")


def test_prometheus_finds_metadata_of_every_family(prometheus, daemons):
    wait_for("agent up", lambda: prometheus.value('up{job="agent"}') == 1)
    metadata = fetch_json(f"{prometheus.url}/api/v1/metadata")["data"]
    page = fetch(f"http://{daemons[0]}/metrics")
    families = {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE fabricmon_")}
    # in OpenMetrics a counter's family has no _total
    known = set(metadata) | {f"{name}_total" for name in metadata}
    assert families - known == set()
