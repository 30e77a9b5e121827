"""Adapters and GPUs of this node beside the expected ones: by machine type, configuration or manifest.

Also the configured roles of ports, which override detected ones. Each run reads only names of directories; other files
are read after a change of these names and every `rediscover`.
"""

from __future__ import annotations

import hashlib
import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

from msgspec import Struct

from fabricmon.catalogue import inventory
from fabricmon.catalogue.inventory import NONE_EXPECTED
from fabricmon.catalogue.machines import Certainty, MachineType, machine
from fabricmon.collect.collector import CollectorConfig, Session
from fabricmon.collect.cost.firmware import adapter_cost
from fabricmon.collect.machine import rdma_device, virtualisation
from fabricmon.collect.machine.access import AccessFaults, access_faults
from fabricmon.collect.machine.files import text
from fabricmon.collect.machine.rows import filled, known
from fabricmon.collect.parse import attributes, manifest
from fabricmon.host.protocol import Host, HostError, Unsupported, reason
from fabricmon.model import Component, Fault, Kind, Part, Reading
from fabricmon.units import Duration, Rate

NAME = "inventory"
ROLES = ("compute", "storage", "management", "idle")
_DMI = "/sys/class/dmi/id"
_DMI_NAMES = ("sys_vendor", "product_name", "board_name")
_PCI = "/sys/bus/pci/devices"
_MANIFEST_BYTES = 1 << 20
HCAS, GPUS = ("node_hcas_found", "node_hcas_lost"), ("node_gpus_found", "node_gpus_lost")
_NAMED = 64  # names in one label
_LISTED = 1000  # characters of the names of removed devices: a label has 1,024 at most


def _listed(names: Iterable[str]) -> str:
    return ", ".join(name.strip() for name in names)


class ExpectedHardware(Struct, forbid_unknown_fields=True, frozen=True):
    """Expected hardware; where unset, the machine's type gives it, if known.

    hcas  RDMA devices of the compute network: role other than storage and management
    rate  minimum rate of the devices that count; one that is down counts
    gpus  GPUs with a driver
    """

    hcas: int | None = None
    rate: Rate | None = None
    gpus: int | None = None

    def __post_init__(self) -> None:
        for name in ("hcas", "gpus"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1024:
                raise ValueError(f"`{name}` is not a number from 0 to 1024")


class InventoryConfig(CollectorConfig, frozen=True):
    """collect.inventory

    expect    hardware that this node should have; overrides its machine type
    none_expected  the node may be without fabric hardware, as a CPU node of a DaemonSet: then its status is OK. Also
              where `expect` has 0 adapters and 0 GPUs
    manifest  JSON file with the hardware of this node by PCI address; missing devices are listed
    removed   devices that were removed on purpose, by RDMA device, interface or PCI address: their absence is no fault
    roles     ports of a role, by RDMA device, "device/port" or interface, with wildcards: {storage: ["mlx5_[89]"]}.
              Roles: compute, storage, management, idle; a port of an idle plane is not evaluated
    """

    interval: Duration = Duration(5)
    expect: ExpectedHardware = ExpectedHardware()
    none_expected: bool = False
    manifest: str = ""
    removed: tuple[str, ...] = ()
    roles: dict[str, tuple[str, ...]] = {}

    def __post_init__(self) -> None:
        for role in self.roles:
            if role not in ROLES:
                raise ValueError(f"`roles`: expected one of {', '.join(ROLES)}, got {role!r}")
        if any("," in name or not name.strip() for name in self.removed) or len(_listed(self.removed)) > _LISTED:
            raise ValueError(f"`removed`: expected names of devices, {_LISTED} characters together at most")


@dataclass(slots=True)
class _Device:
    """One RDMA device on a PCI bus. `role` and `link_layer` of its lowest port; `beside` a GPU on a PCI switch."""

    name: str
    pci: str
    netdev: str
    ports: list[int]
    role: str
    link_layer: str
    beside: bool


class _Wanted(NamedTuple):
    """Expected counts, None where unknown. `rate`: slower adapters (bytes per second) do not count."""

    certainty: Certainty
    hcas: int | None
    gpus: int | None
    rate: float


def _wanted(expect: ExpectedHardware, listed: manifest.Manifest | None, kind: MachineType | None) -> _Wanted:
    """The first of configuration, manifest and machine type that has a value."""
    rate = float(expect.rate or 0) or (listed.rate if listed else 0.0) or (kind.rate if kind else 0.0)
    gpus = expect.gpus
    if gpus is None and listed is not None:
        gpus = listed.count("gpu") or None
    if gpus is None and kind is not None:
        gpus = kind.gpus
    if expect.hcas is not None:
        return _Wanted(Certainty.CONFIGURED, expect.hcas, gpus, rate)
    if listed is not None and listed.count("ib"):
        return _Wanted(Certainty.CONFIGURED, listed.count("ib"), gpus, rate)
    if kind is not None and kind.hcas is not None:
        return _Wanted(kind.certainty, kind.hcas, gpus, rate)
    return _Wanted(Certainty.NONE, None, gpus, rate)


class InventorySession(Session[InventoryConfig]):
    """The whole node."""

    def __init__(self, host: Host, config: InventoryConfig) -> None:
        super().__init__(host, config)
        self._names: tuple[tuple[str, ...] | None, tuple[str, ...] | None] | None = None
        self._values = array("d")
        self._seen_hcas: set[str] = set()
        self._seen_gpus: set[str] = set()
        self._faults: list[Fault] = []

    def read(self) -> Reading:
        now = self._host.monotonic()
        queries, due = 0, self._discovers(now)
        unlisted: list[Fault] = []
        names = self._list(rdma_device.devices, unlisted), self._list(rdma_device.gpu_functions, unlisted)
        if None in names and self._names is not None:
            return Reading(self._parts, self._uncounted(*names), now, (*self._faults, *unlisted), 0)
        if due or names != self._names:
            queries = self._survey(*names)
            self._names = names
            self._settle(now)
        return Reading(self._parts, self._values[:], now, (*self._faults, *unlisted), queries)

    def _list(self, what: Callable[[Host], list[str]], unlisted: list[Fault]) -> tuple[str, ...] | None:
        """None where it is not known what is there; a fault of it too, unless this host cannot list any."""
        try:
            return tuple(what(self._host))
        except Unsupported:
            return None
        except HostError as error:
            unlisted.append(Fault(NAME, "", error.path, error.text))
            return None

    def _uncounted(self, rdma: Sequence[str] | None, gpus: Sequence[str] | None) -> array[float]:
        """The last values without the counts that are unknown now; rows and labels stay as they were."""
        values = self._values[:]
        for column in (*(HCAS if None in (rdma, gpus) else ()), *(GPUS if gpus is None else ())):
            values[inventory.COLUMNS.index(column)] = math.nan
        return values

    def _survey(self, listed_rdma: Sequence[str] | None, listed_gpus: Sequence[str] | None) -> int:
        """Make rows and values again; returns the firmware commands spent. None: what is there is not known."""
        self._faults, rdma, gpus, gpus_known = [], listed_rdma or (), listed_gpus or (), listed_gpus is not None
        adapters_known = listed_rdma is not None and gpus_known  # which adapters count depends on the GPUs
        dmi = [text(self._host, f"{_DMI}/{name}") for name in _DMI_NAMES]
        models = [text(self._host, f"{gpu}/device") for gpu in gpus]
        listed, kind = self._manifest(), machine(dmi[0], dmi[1], models, virtualisation.shares_boards(self._host))
        wanted = _wanted(self._config.expect, listed, kind)
        roles, devices = self._devices(rdma, gpus)
        built = wanted.certainty is Certainty.BUILT and len(gpus) >= (wanted.gpus or 0)
        counted, queries = self._counted(devices, wanted.rate, built)
        self._seen_hcas.update(counted if adapters_known else ())
        self._seen_gpus.update(gpus)
        # a device that is present and no longer counts (another role or rate) is not lost
        removed = {name.strip() for name in self._config.removed}
        lost = self._seen_hcas - {d.name for d in devices} - removed if adapters_known else set[str]()
        gone = sorted(self._seen_gpus - set(gpus)) if gpus_known else []
        lost_gpus = [gpu for gpu in gone if gpu.rsplit("/", 1)[-1] not in removed]
        access = self._access(devices)
        own = Component("", filled({
            **dict(zip(("vendor", "product", "board"), dmi, strict=True)),
            "machine": kind.name if kind else "",
            "access": _names(access.words()),
            NONE_EXPECTED: "true" if self._none_expected() else "",
            "removed": _listed(self._config.removed),
            "hcas": _names(d.pci for d in devices if d.name in counted),
            "missing": _names([*self._missing(listed), *sorted(lost), *(gpu.rsplit("/", 1)[-1] for gpu in lost_gpus)]),
        }))  # fmt: skip
        rows = tuple(Component(name, {"role": role}) for name, role in sorted(roles.items()))
        node = Part(NAME, Kind.NODE, inventory.COLUMNS, (own,), self._period)
        self._shape_is((node, Part(NAME, Kind.PORT, (), rows, self._period)) if rows else (node,))
        self._values = array("d", [
            known(wanted.hcas), *(known(len(names) if adapters_known else None) for names in (counted, lost)),
            float(wanted.certainty),
            known(wanted.gpus), *(known(len(names) if gpus_known else None) for names in (gpus, lost_gpus)),
            *_unusable(access),
            _number(*dmi) if dmi[1] or dmi[2] else math.nan,
        ])  # fmt: skip
        return queries

    def _devices(self, rdma: Sequence[str], gpus: Sequence[str]) -> tuple[dict[str, str], list[_Device]]:
        """Configured roles by row, and the RDMA devices on a PCI bus with their role."""
        given: dict[str, str] = {}
        devices = []
        for name in rdma:
            try:
                ports = rdma_device.ports(self._host, name)
            except HostError:
                continue
            labels = [rdma_device.labels(self._host, name, port) for port in ports]
            roles = [self._configured(name, port, of.get("netdev", "")) for port, of in zip(ports, labels, strict=True)]
            given |= {rdma_device.row_name(name, port): role for port, role in zip(ports, roles, strict=True) if role}
            if labels and labels[0].get("pci"):
                beside = rdma_device.beside_gpu(self._host, f"{rdma_device.CLASS}/{name}/device", gpus)
                role, layer = roles[0] or labels[0]["role"], labels[0].get("link_layer", "")
                devices.append(_Device(name, labels[0]["pci"], labels[0].get("netdev", ""), ports, role, layer, beside))
        return given, devices

    def _configured(self, device: str, port: int, netdev: str) -> str:
        mine = (device, rdma_device.row_name(device, port), netdev)
        for role, patterns in self._config.roles.items():
            if any(fnmatchcase(name, pattern) for pattern in patterns for name in mine if name):
                return role
        return ""

    def _counted(self, devices: list[_Device], rate: float, built: bool) -> tuple[set[str], int]:
        """Devices of the compute network, and the firmware commands spent.

        On a machine type with an adapter beside each GPU only those beside a GPU count, unless a GPU is missing.
        """
        candidates = [d for d in devices if d.role not in ("storage", "management")]
        beside = [d for d in candidates if d.beside]
        if built and beside:
            return {d.name for d in beside}, 0
        if not rate:
            return {d.name for d in candidates}, 0
        counted, queries = set(), 0
        for device in candidates:
            cost = adapter_cost(rdma_device.driver_of(self._host, device.name)).port(device.link_layer)
            queries += 2 * cost * len(device.ports)  # state and rate
            if max(self._rate(device.name, port) for port in device.ports) >= rate:
                counted.add(device.name)
        return counted, queries

    def _rate(self, device: str, port: int) -> float:
        """Bytes per second; infinite for a link that is down or without a rate."""
        base = f"{rdma_device.CLASS}/{device}/ports/{port}"
        try:
            if attributes.state(text(self._host, f"{base}/state")) == attributes.DOWN:
                return math.inf
            return attributes.rate(text(self._host, f"{base}/rate"))[0]
        except ValueError:
            return math.inf

    def _access(self, devices: Sequence[_Device]) -> AccessFaults:
        infiniband = [d.name for d in devices if d.link_layer == "InfiniBand"]
        interfaces = [(d.name, d.pci, d.netdev) for d in devices if d.netdev]
        try:
            return access_faults(self._host, [d.name for d in devices], infiniband, interfaces)
        except HostError as error:
            self._faults.append(Fault(NAME, "", error.path, error.text))
            return AccessFaults(None, None, ())

    def _none_expected(self) -> bool:
        expect = self._config.expect
        return self._config.none_expected or (expect.hcas == 0 and expect.gpus == 0)

    def _manifest(self) -> manifest.Manifest | None:
        path = self._config.manifest
        if not path:
            return None
        try:
            return manifest.parse(self._host.read(path, _MANIFEST_BYTES))
        except (HostError, ValueError) as error:
            self._faults.append(Fault(NAME, "", path, reason(error)))
        return None

    def _missing(self, listed: manifest.Manifest | None) -> list[str]:
        if listed is None:
            return []
        try:
            return listed.missing(frozenset(self._host.list(_PCI)))
        except HostError as error:
            self._faults.append(Fault(NAME, "", error.path, error.text))
            return []


def _number(*words: str) -> float:
    """A number below 2**53, equal for equal words on every node."""
    digest = hashlib.blake2b("\0".join(words).encode(), digest_size=8).digest()
    return float(int.from_bytes(digest, "big") >> 11)


def _unusable(access: AccessFaults) -> list[float]:
    """Numbers of devices: without uverbs, without umad, with the interface of another adapter."""
    return [*(known(None if names is None else len(names)) for names in access[:2]), float(len(access.misplaced))]


def _names(words: Iterable[str]) -> str:
    every = list(words)
    more = f" and {len(every) - _NAMED} more" if len(every) > _NAMED else ""
    return ", ".join(every[:_NAMED]) + more
