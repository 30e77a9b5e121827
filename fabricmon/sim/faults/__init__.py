"""Every fault and look-alike that can be simulated, by its name in scenario files. Pure.

A function takes the layout, the component (as incidents name it), the second of the script at which it begins, and its
own arguments; it returns its steps and the ground truth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fabricmon.sim.faults import gpus, hosts, links, lookalikes, switches
from fabricmon.sim.script import InjectedFault

FAULTS: Mapping[str, Callable[..., InjectedFault]] = {
    "link_down": links.link_down,
    "link_flap": links.link_flap,
    "slow_flap": links.slow_flap,
    "link_errors": links.link_errors,
    "degrading_link": links.degrading_link,
    "dirty_optic": links.dirty_optic,
    "slow_link": links.slow_link,
    "narrow_link": links.narrow_link,
    "leaf_down": switches.leaf_down,
    "leaf_reboot": switches.leaf_reboot,
    "switch_gray": switches.switch_gray,
    "switch_down": switches.switch_down,
    "plane_gray": switches.plane_gray,
    "uplink_gray": switches.uplink_gray,
    "uplink_down": switches.uplink_down,
    "rail_congestion": switches.rail_congestion,
    "host_crash": hosts.host_crash,
    "power_loss": hosts.power_loss,
    "nic_lost": hosts.nic_lost,
    "bad_nic": hosts.bad_nic,
    "lossy_nic": hosts.lossy_nic,
    "straggler": hosts.straggler,
    "pcie_retrain": hosts.pcie_retrain,
    "pause_storm": hosts.pause_storm,
    "incast": hosts.incast,
    "storage_slow": hosts.storage_slow,
    "nvlink_errors": gpus.nvlink_errors,
    "nvlink_down": gpus.nvlink_down,
    "nvlink_domain": gpus.nvlink_domain,
    "node_reboot": hosts.node_reboot,
    "driver_reload": lookalikes.driver_reload,
    "counter_reset": lookalikes.counter_reset,
    "counter_saturated": lookalikes.counter_saturated,
    "counter_wrap": lookalikes.counter_wrap,
    "counters_frozen": lookalikes.counters_frozen,
    "agent_restart": lookalikes.agent_restart,
    "clock_skew": lookalikes.clock_skew,
    "clock_step": lookalikes.clock_step,
    "agents_silent": lookalikes.agents_silent,
    "monitoring_partition": lookalikes.monitoring_partition,
    "retransmits": lookalikes.retransmits,
    "benign_waits": lookalikes.benign_waits,
    "ecn_marks": lookalikes.ecn_marks,
    "idle_pcie": lookalikes.idle_pcie,
}
"""Jobs (checkpoints, all-reduce bursts, starts and stops) are not faults: they are traffic."""
