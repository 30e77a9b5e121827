"""A real agent on a synthetic node, a real server that follows it, and a real Prometheus that scrapes both."""

import pytest

from tests.host.trees import build_hca_tree
from tests.rigs.daemons import FABRICMON, Daemon, fetch, free_port, wait_for
from tests.rigs.prometheus import Prometheus


@pytest.fixture(scope="session")
def daemons(tmp_path_factory):
    """Addresses of an agent on a synthetic node with 8 HCAs, one of them down, and of a server that follows it."""
    folder = tmp_path_factory.mktemp("daemons")
    sysfs = folder / "sys"
    build_hca_tree(sysfs, devices=8)
    agent, server = (f"127.0.0.1:{free_port()}" for _ in range(2))
    start_agent = [*FABRICMON, "agent", "--listen", agent, "--node", "node-1", "--path.sysfs", sysfs]
    start_server = [*FABRICMON, "central", "--listen", server, "--state", folder / "state", "--target", agent]
    start_server += ["--webhook", f"http://127.0.0.1:{free_port()}/"]  # nobody there: something is left to deliver
    with Daemon(folder / "agent.log", start_agent) as first, Daemon(folder / "server.log", start_server) as second:
        first.wait_until("agent", lambda: fetch(f"http://{agent}/-/ready"))
        second.wait_until("server", lambda: fetch(f"http://{server}/-/ready"))
        nodes = f"http://{server}/api/v1/nodes"
        second.wait_until("the node at the server", lambda: '"live"' in fetch(nodes))
        # one link goes down, so that there is an incident to show
        port = sysfs / "class/infiniband/mlx5_3/ports/1"
        (port / "state").write_text("1: DOWN\n")
        (port / "phys_state").write_text("2: Polling\n")
        incidents = f"http://{server}/api/v1/incidents"
        second.wait_until("the incident", lambda: "link_down" in fetch(incidents))
        yield agent, server
        assert (first.stop(), second.stop()) == (0, 0), first.tail() + second.tail()


@pytest.fixture(scope="session")
def prometheus(require, daemons, tmp_path_factory):
    agent, server = daemons
    program = require("prometheus", "scrapes the agent and the server")
    with Prometheus(program, tmp_path_factory.mktemp("prometheus"), {"agent": [agent], "server": [server]}) as found:
        wait_for("both scraped", lambda: found.value("sum(up)") == 2)
        yield found
