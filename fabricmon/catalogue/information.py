"""States that are exported and that no rule evaluates by themselves, with the reason. Pure.

A test compares this table with the columns that rules read (tests/rules/test_every_state_is_evaluated.py).
"""

from __future__ import annotations

from collections.abc import Mapping

_ETS = "Evaluated as a part of `fabricmon_port_ets_fingerprint`"
_OF_LINK_DOWN = "Names the cause of a link that is down; the link's state is evaluated"

INFORMATION: Mapping[str, str] = {
    "lid": "An address, not a condition",
    "sm_lid": "Evidence of a port that waits for its subnet manager; the port's state is evaluated",
    "supported": "A device that refuses its counters is not checked (docs/methods.md#checked-components)",
    "fec_mode": "Both ends of a link agree on it; errors before and after correction are evaluated",
    "link_down_reason": _OF_LINK_DOWN,
    "link_down_detail": _OF_LINK_DOWN,
    "module_state": "Rx power and temperature of the module are evaluated",
    "bond_leg_up": "The carrier of the leg is evaluated",
    "bond_leg_active": "Which leg of a bond carries traffic is a choice of its policy",
    "bond_leg_aggregated": "Which aggregator a leg is in; the carrier of the leg is evaluated",
    **{f"ets_algorithm_class{n}": _ETS for n in range(8)},
    **{f"ets_class_prio{n}": _ETS for n in range(8)},
    "gpu_fabric_partition_assigned": "A rack may have GPUs in no partition; an incorrect configuration is evaluated",
    "gpu_last_xid": "A number, not a condition; what it leads to is evaluated as recovery action and link state",
    "gpu_nvlinks_inactive_mask": "Names the inactive links; their number is evaluated",
    "gpu_nvlink_worst": "Names the link with most errors; the errors are evaluated",
    "nvlink_state": "Evaluated as `fabricmon_gpu_nvlinks_active`",
    "nvlink_version": "A fact about the hardware",
    "nvlink_power_state": "Idle links save power",
    "node_kernel_log_readable": "A permission; without the log its causes are missing, no state is",
}
"""Column -> reason."""
