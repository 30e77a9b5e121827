"""A real Prometheus scrapes a real agent and a real centre; its own tool has nothing to say about their pages."""

import subprocess

import pytest

from tests.host.trees import build_hca_tree
from tests.rigs.daemons import FABRICMON, Daemon, fetch, fetch_json, free_port, wait_for
from tests.rigs.prometheus import Prometheus

pytestmark = pytest.mark.peer


@pytest.fixture(scope="module")
def daemons(tmp_path_factory):
    """Addresses of an agent on a synthetic node with 8 HCAs and of a centre that follows it."""
    folder = tmp_path_factory.mktemp("daemons")
    sysfs = folder / "sys"
    build_hca_tree(sysfs, devices=8)
    agent, centre = (f"127.0.0.1:{free_port()}" for _ in range(2))
    start_agent = [*FABRICMON, "agent", "--listen", agent, "--node", "node-1", "--path.sysfs", sysfs]
    start_centre = [*FABRICMON, "central", "--listen", centre, "--state", folder / "state", "--target", agent]
    with Daemon(folder / "agent.log", start_agent) as first, Daemon(folder / "centre.log", start_centre) as second:
        first.wait_until("agent", lambda: fetch(f"http://{agent}/-/ready"))
        second.wait_until("centre", lambda: fetch(f"http://{centre}/-/ready"))
        nodes = f"http://{centre}/api/v1/nodes"
        second.wait_until("the node at the centre", lambda: '"live"' in fetch(nodes), 30)
        yield agent, centre
        assert (first.stop(), second.stop()) == (0, 0), first.tail() + second.tail()


@pytest.fixture(scope="module")
def prometheus(require, daemons, tmp_path_factory):
    agent, centre = daemons
    program = require("prometheus", "scrapes the agent and the centre")
    with Prometheus(program, tmp_path_factory.mktemp("prometheus"), {"agent": [agent], "centre": [centre]}) as server:
        wait_for("both scraped", lambda: server.value("count(up)") == 2)
        yield server


def test_both_are_up(prometheus):
    wait_for("both up", lambda: prometheus.value("sum(up)") == 2, 20)


def test_every_sample_of_the_agents_page_is_stored(prometheus, daemons):
    wait_for("agent up", lambda: prometheus.value('up{job="agent"}') == 1, 20)
    page = fetch(f"http://{daemons[0]}/metrics")
    lines = [line for line in page.splitlines() if line and not line.startswith("#")]
    # series that Prometheus adds about the scrape itself are not counted here
    assert prometheus.value('scrape_samples_scraped{job="agent"}') == pytest.approx(len(lines), rel=0.02)
    assert prometheus.value("count(fabricmon_port_xmit_bytes_total)") == 8


def test_counter_of_the_tree_is_what_prometheus_has(prometheus):
    wait_for("agent up", lambda: prometheus.value('up{job="agent"}') == 1, 20)
    assert prometheus.value("count(fabricmon_port_rate_bytes_per_second == 50e9)") == 8


def test_target_of_the_centre_is_named_in_its_own_page(prometheus):
    wait_for("centre up", lambda: prometheus.value('up{job="centre"}') == 1, 20)
    assert prometheus.value('sum(fabricmon_central_agents{presence="live"})') == 1


@pytest.mark.parametrize("which", [0, 1], ids=["agent", "centre"])
def test_promtool_finds_nothing_on_the_page(require, daemons, which):
    tool = require("promtool", "checks the page")
    page = fetch(f"http://{daemons[which]}/metrics")
    run = subprocess.run([tool, "check", "metrics"], input=page, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout + run.stderr) == (0, "")


def test_prometheus_finds_metadata_of_every_family(prometheus, daemons):
    wait_for("agent up", lambda: prometheus.value('up{job="agent"}') == 1, 20)
    metadata = fetch_json(f"{prometheus.url}/api/v1/metadata")["data"]
    page = fetch(f"http://{daemons[0]}/metrics")
    families = {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE fabricmon_")}
    # in OpenMetrics a counter's family has no _total
    known = set(metadata) | {f"{name}_total" for name in metadata}
    assert families - known == set()
