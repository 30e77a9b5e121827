"""Every fault and look-alike that can be simulated, by the name that scenario files give it. Pure.

A function takes the layout, where (names as incidents write them), the second it begins, and its own arguments; it
returns the steps that make it and the ground truth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fabricmon.sim import faults_hosts as hosts
from fabricmon.sim import faults_links as links
from fabricmon.sim import faults_switches as switches
from fabricmon.sim.script import Fault

FAULTS: Mapping[str, Callable[..., Fault]] = {
    "link_down": links.link_down,
    "link_flap": links.link_flap,
    "slow_flap": links.slow_flap,
    "link_errors": links.link_errors,
    "degrading_link": links.degrading_link,
    "slow_link": links.slow_link,
    "narrow_link": links.narrow_link,
    "leaf_down": switches.leaf_down,
    "host_crash": hosts.host_crash,
    "power_loss": hosts.power_loss,
    "nic_lost": hosts.nic_lost,
    "node_reboot": hosts.node_reboot,
}
