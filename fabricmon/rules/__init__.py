"""The rules: one file a phenomenon, and this literal table of them. Pure."""

from __future__ import annotations

from fabricmon.catalogue.unique import by_name
from fabricmon.rules import (
    agent_silent,
    config_drift,
    congestion,
    credits_withheld,
    expected_inventory,
    flow_loss,
    gpu_fabric,
    incast,
    latency,
    link_degraded,
    link_degrading,
    link_down,
    link_errors,
    link_flapping,
    mass_alarm,
    nic_fault,
    nvlink_degraded,
    nvlink_down,
    optic_degrading,
    packet_loss,
    path_lost,
    pcie_degraded,
    pcie_errors,
    pfc_storm,
    repeat_offender,
    slow_receiver,
    storage_path,
    straggler,
    telemetry_quality,
    unreachable,
)
from fabricmon.rules.rule import Outcome, Rule, Scope

__all__ = ["RULES", "Outcome", "Rule", "Scope"]

RULES: tuple[Rule, ...] = (
    link_down.RULE,
    link_flapping.RULE,
    link_errors.RULE,
    link_degrading.RULE,
    optic_degrading.RULE,
    link_degraded.RULE,
    nic_fault.RULE,
    nvlink_down.RULE,
    nvlink_degraded.RULE,
    gpu_fabric.RULE,
    pcie_degraded.RULE,
    pcie_errors.RULE,
    pfc_storm.RULE,
    slow_receiver.RULE,
    credits_withheld.RULE,
    incast.RULE,
    congestion.RULE,
    straggler.RULE,
    storage_path.RULE,
    agent_silent.RULE,
    telemetry_quality.RULE,
    config_drift.RULE,
    expected_inventory.RULE,
    packet_loss.RULE,
    flow_loss.RULE,
    unreachable.RULE,
    path_lost.RULE,
    latency.RULE,
    repeat_offender.RULE,
    mass_alarm.RULE,
)

by_name(RULES, "RULES (fabricmon/rules/__init__.py)")
