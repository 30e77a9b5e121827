"""Names and labels of the components that the agents report."""

from __future__ import annotations

from collections.abc import Callable

from fabricmon.model import Component
from tests.stories.ethernet.clusters import Cluster
from tests.stories.ethernet.layout import PartLayout, Rows
from tests.stories.ethernet.wiring import Wiring

_KERNEL_DRIVERS = {"mlx5": "mlx5_core", "bnxt": "bnxt_en", "irdma": "ice", "efa": "efa"}
_RDMA_DRIVERS = {"mlx5": "mlx5_core", "bnxt": "bnxt_en", "irdma": "irdma", "efa": "efa"}
_MLX5_MODELS = {100: "MT4123", 200: "MT4125", 400: "MT4129"}
_BNXT_MODELS = {200: "BCM57508", 400: "BCM57608"}
"""By Gb/s of an adapter."""


class Components:
    """The components of a cluster. `firmware` and `device_names` of a host are read for each inventory."""

    def __init__(
        self, cluster: Cluster, wiring: Wiring, firmware: list[str], device_names: Callable[[int], list[str]]
    ) -> None:
        self._cluster, self._wiring, self._firmware, self._device_names = cluster, wiring, firmware, device_names

    def of(self, host: int, part: PartLayout) -> tuple[Component, ...]:
        """Rows of this part of the host's inventory."""
        cluster = self._cluster
        if part.rows is Rows.NODE:
            return (Component("", {"vendor": "Acme", "product": "HGX", "machine": ""}),)
        if part.rows is Rows.ADAPTER:
            return tuple(self._adapter(host, port) for port in range(cluster.ports))
        if part.rows is Rows.LEG and cluster.bonded:
            return tuple(self._bond_leg(host, leg, part.collector) for leg in range(cluster.legs))
        return tuple(self._port(host, port, part.collector) for port in range(cluster.ports))

    def _adapter(self, host: int, port: int) -> Component:
        device = self._device_names(host)[port]
        labels = {"device": _pci(port), "class": "nic", "rdma": device, "owner": device}
        labels["path"] = f"0000:{0xF + port * 8:02x}:01.0"
        labels["numa"] = str(port * 2 // self._cluster.ports)
        return Component(_pci(port), labels)

    def _bond_leg(self, host: int, leg: int, collector: str) -> Component:
        name = self._cluster.netdevs()[leg]
        labels = {"netdev": name, "bond": f"bond{leg // 2}"}
        if collector == "ethernet":
            pci = f"{_pci(leg // 2)[:-1]}{leg % 2}"
            driver = _KERNEL_DRIVERS[self._cluster.driver(host)]
            labels |= {"link_layer": "Ethernet", "pci": pci, "driver": driver, "role": "unknown"}
        if collector == "neighbours":
            labels |= self._neighbour(host, leg)
        return Component(name, labels)

    def _port(self, host: int, port: int, collector: str) -> Component:
        cluster = self._cluster
        device = self._device_names(host)[port]
        labels = {"device": device, "port": "1"}
        if cluster.driver(host) != "efa":
            labels["netdev"] = f"bond{port}" if cluster.bonded else cluster.netdevs()[port]
        if collector in ("infiniband_state", "infiniband", "infiniband_errors"):
            labels |= self._rdma_labels(host, port)
        if collector == "roce":
            labels |= {"rdma_protocol": "roce", "roce_version": "v2"}
        if collector == "neighbours":
            labels |= self._neighbour(host, port)
        return Component(f"{device}/1", labels)

    def _rdma_labels(self, host: int, port: int) -> dict[str, str]:
        driver = self._cluster.driver(host)
        made_for = self._cluster.made_for or int(self._cluster.rate(host) * 8 / 1e9)
        model = {"mlx5": _MLX5_MODELS[made_for], "bnxt": _BNXT_MODELS.get(made_for, "BCM")}.get(driver, "")
        labels = {
            "link_layer": "Unspecified" if driver == "efa" else "Ethernet",
            "pci": _pci(port),
            "driver": _RDMA_DRIVERS[driver],
            "role": "storage" if port in self._cluster.storage else "compute",
            "firmware": self._firmware[host],
            "board": f"MT_00000{model}" if driver == "mlx5" else "",
            "hca_type": model,
            "node_guid": f"a088c200:{host:04x}:{port:04x}",
        }
        return {name: value for name, value in labels.items() if value}

    def _neighbour(self, host: int, leg: int) -> dict[str, str]:
        leaf = self._wiring.leaf[host, leg]
        return {
            "lldp_chassis": self._wiring.names[leaf],
            "lldp_chassis_id": f"02:00:00:00:00:{leaf:02x}",
            "lldp_port": f"Ethernet{self._wiring.port[host, leg] * 8}",
        }


def _pci(port: int) -> str:
    return f"0000:{0x10 + port * 8:02x}:00.0"
