"""What a profile of NVIDIA's mocks says in words of fabricmon's rows, from its YAML alone. Pure.

Nothing here shares code with the collectors: addresses, units and enumerations are written down a second time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

PROFILES = ("a100", "h100", "b200", "gb200", "gb300")

Row = Mapping[str, Any]

_STATES = {"not_supported": 0, "not_started": 1, "in_progress": 2, "completed": 3, "auto": 3}
_SUMMARIES = {"not_supported": 0, "healthy": 1, "unhealthy": 2, "limited_capacity": 3}
_CONFIGURATIONS = ("not_supported", "none", "incorrect_sysguid", "incorrect_chassis_sn", "no_partition",
                   "insufficient_nvlinks", "incompatible_gpu_fw", "invalid_location", "gpu_state_invalid")  # fmt: skip
_CONDITIONS = ("degraded_bandwidth", "route_recovery", "route_unhealthy", "access_timeout_recovery")
_NO_ERRORS = (
    "crc_errors", "replay_errors", "recovery_errors", "malformed_packet_errors", "buffer_overrun_errors", "rcv_errors",
    "rcv_remote_errors", "rcv_general_errors", "local_link_integrity_errors", "xmit_discards", "recoveries_successful",
    "recoveries_failed", "recoveries", "effective_errors", "effective_ber", "symbol_errors", "symbol_ber",
)  # fmt: skip
_PORT_STATES = {"DOWN": 1, "INIT": 2, "ARMED": 3, "ACTIVE": 4}
_PHYS_STATES = {"Polling": 2, "Disabled": 3, "Training": 4, "LinkUp": 5}
_NO_COUNTS = (
    "symbol_errors", "excessive_buffer_overrun_errors", "link_error_recoveries", "local_link_integrity_errors",
    "rcv_errors", "xmit_discards", "vl15_dropped", "rcv_constraint_errors", "rcv_packets", "rcv_remote_physical_errors",
    "rcv_switch_relay_errors", "xmit_constraint_errors", "xmit_packets", "link_downed", "rcv", "xmit",
)  # fmt: skip

_VERSIONS = {2: 2, 3: 4, 4: 6, 5: 7}
"""Generation of NVLink -> NVML_NVLINK_VERSION_* (nvml.h)."""

NOT_SO: dict[str, str] = {
    "gpu_pcie_replays": "nvmlDeviceGetPcieReplayCounter of the mock is always 0, whatever its profile says",
    "nvlink_version": "the mock answers its profile's generation; nvml.h has an enumeration (7 stands for 5.0)",
    "netdev": "the mock writes 1 into gid_attrs/ndevs, where the kernel writes the name of an interface",
}
"""Where the mock is unlike a real machine, and why we know. Printed, and no failure."""


def devices(profile: Row) -> list[dict[str, Any]]:
    """The settings of each GPU: the defaults with its own on top, one level deep."""
    found = []
    for own in profile["devices"]:
        merged = dict(profile["device_defaults"])
        for key, value in own.items():
            merged[key] = {**merged.get(key, {}), **value} if isinstance(value, dict) else value
        found.append(merged)
    return found


def gpu_rows(profile: Row) -> dict[str, dict[str, Any]]:
    """Row -> labels and columns that the profile decides."""
    rows: dict[str, dict[str, Any]] = {}
    for device in devices(profile):
        number = device["index"]
        rows[f"gpu{number}"] = (
            _identity(profile, device) | _fabric(device.get("fabric")) | _pcie(device.get("pcie", {}))
        )
        links = _links(profile.get("nvlink", {}), number)
        if links:
            rows[f"gpu{number}"] |= {
                "gpu_nvlinks": len(links),
                "gpu_nvlinks_active": sum(links),
                "gpu_nvlinks_inactive_mask": sum(1 << n for n, up in enumerate(links) if not up),
            }
        for link, up in enumerate(links):
            rows[f"gpu{number}/link{link}"] = _link(profile["nvlink"], up, number, link)
    return rows


def _identity(profile: Row, device: Row) -> dict[str, Any]:
    place = device.get("platform") or {}
    named = {"chassis": "chassis_serial_number", "slot": "slot_number", "tray": "tray_index", "module": "module_id"}
    return {
        "gpu": str(device["index"]), "uuid": device["uuid"], "pci": device["pci"]["bus_id"].lower(),
        "model": device["name"], "driver": str(profile["system"]["driver_version"]),
        **{label: str(place[key]) for label, key in named.items() if key in place},
    }  # fmt: skip


def _fabric(fabric: Row | None) -> dict[str, Any]:
    if fabric is None:
        return {"gpu_fabric_state": None}
    state, health = _STATES[fabric.get("state", "completed")], fabric.get("health") or {}
    conditions = {f"gpu_fabric_{name}": float(bool(health.get(name))) for name in _CONDITIONS}
    configuration = _CONFIGURATIONS.index(health.get("incorrect_configuration") or "none")
    faulty = configuration > 1 or any(health.get(name) for name in _CONDITIONS[1:])
    summary = 2 if faulty else 3 if health.get("degraded_bandwidth") else 1
    return conditions | {
        "gpu_fabric_state": state,
        "gpu_fabric_status": 0 if state == _STATES["completed"] else None,
        "gpu_fabric_health_verdict": _SUMMARIES.get(fabric.get("health_summary", ""), summary),
        "gpu_fabric_incorrect_configuration": configuration or None,
        "cluster": fabric["cluster_uuid"],
        "clique": str(fabric["clique_id"]) if state == _STATES["completed"] else None,
    }


def _pcie(pcie: Row) -> dict[str, Any]:
    return {
        "gpu_pcie_generation": pcie["current_link_gen"], "gpu_pcie_max_generation": pcie["max_link_gen"],
        "gpu_pcie_width": pcie["current_link_width"], "gpu_pcie_max_width": pcie["max_link_width"],
        "gpu_pcie_replays": pcie["replay_counter"],
    }  # fmt: skip


def _links(nvlink: Row, gpu: int) -> list[bool]:
    """Whether each link is active: of the GPU's own list, else all where the profile has switches, else none."""
    for own in nvlink.get("device_links", ()):
        if own["index"] == gpu:
            return [link.get("state", "active") == "active" for link in own["links"]]
    return [True] * nvlink.get("links_per_gpu", 0) if nvlink.get("switches") else []


def _link(nvlink: Row, up: bool, gpu: int, link: int) -> dict[str, Any]:
    # field 84 and 132 answer 0 for a link that is down, field 164 nothing
    known: dict[str, Any] = {"gpu": str(gpu), "link": str(link), "nvlink_state": float(up)}
    if up:
        known |= {"remote": "switch", "remote_pci": None, "nvlink_version": _VERSIONS[nvlink["version"]],
                  "nvlink_power_state": 0, "nvlink_speed": nvlink["bandwidth_per_link_mbps"] * 1e6,
                  **{f"nvlink_{name}": 0.0 for name in _NO_ERRORS}}  # fmt: skip
    return known


def port_rows(profile: Row, gpus: int, node: str) -> dict[str, dict[str, Any]]:
    """Row -> labels and columns of the InfiniBand ports that mock-ib renders for a profile."""
    ib = profile["infiniband"]
    prefix = re.sub("[^0-9a-f]", "", ib["guid_prefix"].lower())[:8]
    rows, up = {}, ib["port_state"] != "DOWN"  # a port that is down has no rate, whatever its file says
    for number in range(gpus * ib["hcas_per_gpu"]):
        rows[f"mlx5_{number}/1"] = {
            "device": f"mlx5_{number}", "port": "1", "link_layer": ib["link_layer"], "firmware": ib["fw_version"],
            "board": ib["board_id"], "hca_type": ib["hca_type"], "netdev": None,
            "guids begin with": f"{prefix[:4]}:{prefix[4:]}",
            "state": _PORT_STATES[ib["port_state"]], "phys_state": _PHYS_STATES[ib["phys_state"]],
            "rate": ib["rate_gbps"] * 1e9 / 8 if up else None, "width": 4 if up else None, "sm_lid": 1,
            **dict.fromkeys(_NO_COUNTS, 0),
        }  # fmt: skip
    return rows
