"""Active probing with real agents and a real server: assignments and results over their streams, and a fault."""

from __future__ import annotations

import pytest

from tests.probe.lab import Lab, agents, page, samples
from tests.probe.site import Site
from tests.rigs.daemons import wait_for

pytestmark = [pytest.mark.netns, pytest.mark.timeout(700)]

HOSTS, CUT = 5, 3
SENT = "fabricmon_probe_packets_total"


def test_a_port_that_no_probe_reaches_is_named_and_a_reload_stops_all(require, tmp_path):
    require("netns", "makes namespaces")
    require("ip")
    with Lab(tmp_path, HOSTS) as lab, agents(lab, tmp_path, HOSTS):
        site = Site(lab, tmp_path)
        with site.server:
            wait_for("all ports in the plan", lambda: site.samples("fabricmon_central_probe_ports") == [HOSTS])

            def sent() -> float:
                return sum(samples(page(lab.names[1], lab.addresses[1], 9790, "/metrics"), SENT))

            wait_for("results of a window", lambda: sent() > 30)
            assert site.incidents() == {}
            lab.fault({"into": CUT, "loss": 1.0}, {"out": CUT, "loss": 1.0})  # probes only: the agent still answers
            # windows in which a busy machine kept an agent waiting are void: they show nothing
            found = wait_for("the incident", site.incidents, 300)
            assert found == {f"host(n{CUT})": "unreachable"}
            lab.fault()
            wait_for("its end", lambda: not site.incidents())

            site.settings(enabled=False)
            site.server.process.send_signal(1)
            wait_for("no assignment", lambda: site.samples("fabricmon_central_probe_nodes") == [0.0])
