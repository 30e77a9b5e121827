"""What this node has beside what it should have: adapters and GPUs, by its type, by the configuration, by a manifest.

Also the last word on the role of a port, where the configuration has one. Names in directories are all that is read at
each run; the files behind them only when the names have changed, and every `rediscover`.
"""

from __future__ import annotations

import hashlib
import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from msgspec import Struct

from fabricmon.catalogue import inventory
from fabricmon.catalogue.machines import Certainty, machine
from fabricmon.collect import attributes, manifest, rdma_device
from fabricmon.collect.hardware_cost import cost_of
from fabricmon.host.protocol import Host, HostError
from fabricmon.model import Component, Fault, Kind, Part, Reading
from fabricmon.units import Duration, Rate

NAME = "inventory"
ROLES = ("compute", "storage", "management", "idle")
_DMI = "/sys/class/dmi/id"
_DMI_NAMES = ("sys_vendor", "product_name", "board_name")
_PCI = "/sys/bus/pci/devices"
_MANIFEST_BYTES = 1 << 20
_NAMED = 64  # names in one label


class Expect(Struct, forbid_unknown_fields=True, frozen=True):
    """What this node has; what is not said here is known from the machine's type, or not known.

    hcas  RDMA devices of the compute network: those with a role other than storage and management
    rate  only those at least so fast count; one that is down counts
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


class Config(Struct, forbid_unknown_fields=True, frozen=True):
    """collect.inventory

    enabled     look at all
    interval    between two looks at the names of devices
    deadline    for one look
    rediscover  between two looks at everything
    expect      what this node should have, where its type does not tell or tells something else
    manifest    JSON file with the hardware of this node by PCI address; what of it is missing is named
    roles       ports of a role, by RDMA device, "device/port" or interface, with wildcards: {storage: ["mlx5_[89]"]}.
                Roles: compute, storage, management, idle; a port of an idle plane is not judged
    """

    enabled: bool = True
    interval: Duration = Duration(5)
    deadline: Duration = Duration(5)
    rediscover: Duration = Duration(300)
    expect: Expect = Expect()
    manifest: str = ""
    roles: dict[str, tuple[str, ...]] = {}

    def __post_init__(self) -> None:
        for role in self.roles:
            if role not in ROLES:
                raise ValueError(f"`roles`: expected one of {', '.join(ROLES)}, got {role!r}")


def open(host: Host, config: Config) -> Collector:
    return Collector(host, config)


class Collector:
    def __init__(self, host: Host, config: Config) -> None:
        self._session = Session(host, config)

    def sessions(self) -> dict[str, Session]:
        return {"": self._session}

    def close(self) -> None:
        """Nothing is open."""


@dataclass(slots=True)
class _Device:
    """One RDMA device on a PCI bus. `role` and `link_layer` of its lowest port; `beside` a GPU on a PCI switch."""

    name: str
    pci: str
    ports: list[int]
    role: str
    link_layer: str
    beside: bool


class Session:
    """The whole node."""

    def __init__(self, host: Host, config: Config) -> None:
        self._host, self._config = host, config
        self._parts: tuple[Part, ...] = ()
        self._names: tuple[tuple[str, ...], tuple[str, ...]] | None = None
        self._values = array("d")
        self._seen_hcas: set[str] = set()
        self._seen_gpus: set[str] = set()
        self._faults: list[Fault] = []
        self._again = -math.inf

    def read(self) -> Reading:
        now = self._host.monotonic()
        queries = 0
        names = (tuple(self._rdma()), tuple(rdma_device.gpu_functions(self._host)))
        if names != self._names or now >= self._again:
            queries = self._look(names[0], names[1])
            self._names = names
            self._again = now + float(self._config.rediscover)
        return Reading(self._parts, self._values[:], now, tuple(self._faults), queries)

    def close(self) -> None:
        """Nothing is open."""

    def _rdma(self) -> list[str]:
        try:
            return rdma_device.devices(self._host)
        except HostError:
            return []

    def _look(self, rdma: Sequence[str], gpus: Sequence[str]) -> int:
        """Make the rows and values anew; returns the firmware commands that cost."""
        self._faults = []
        host, expect = self._host, self._config.expect
        vendor, product, board = (rdma_device.text(host, f"{_DMI}/{name}") for name in _DMI_NAMES)
        kind = machine(vendor, product, [rdma_device.text(host, f"{gpu}/device") for gpu in gpus])
        listed = self._manifest()
        roles, devices = self._devices(rdma, gpus)
        rate = float(expect.rate or 0) or (listed.rate if listed else 0.0) or (kind.rate if kind else 0.0)
        certainty, hcas = Certainty.NONE, None
        if expect.hcas is not None:
            certainty, hcas = Certainty.CONFIGURED, expect.hcas
        elif listed is not None and listed.count("ib"):
            certainty, hcas = Certainty.CONFIGURED, listed.count("ib")
        elif kind is not None and kind.hcas is not None:
            certainty, hcas = kind.certainty, kind.hcas
        wanted_gpus = expect.gpus
        if wanted_gpus is None and listed is not None:
            wanted_gpus = listed.count("gpu") or None
        if wanted_gpus is None and kind is not None:
            wanted_gpus = kind.gpus

        built = certainty is Certainty.BUILT and len(gpus) >= (wanted_gpus or 0)
        counted, queries = self._counted(devices, rate, built)
        self._seen_hcas.update(counted)
        self._seen_gpus.update(gpus)
        # what stays but no longer counts (another role, another rate) is not lost
        lost = self._seen_hcas - {d.name for d in devices}
        lost_gpus = self._seen_gpus - set(gpus)
        labels = {
            "vendor": vendor,
            "product": product,
            "board": board,
            "machine": kind.name if kind else "",
            "hcas": _names(d.pci for d in devices if d.name in counted),
            "missing": _names([*self._missing(listed), *sorted(lost), *(_last(gpu) for gpu in sorted(lost_gpus))]),
        }  # fmt: skip
        own = Component("", {name: value for name, value in labels.items() if value})
        period = float(self._config.interval)
        parts = [Part(NAME, Kind.NODE, inventory.COLUMNS, (own,), period)]
        if roles:
            rows = tuple(Component(name, {"role": role}) for name, role in sorted(roles.items()))
            parts.append(Part(NAME, Kind.PORT, (), rows, period))
        if tuple(parts) != self._parts:
            self._parts = tuple(parts)
        self._values = array("d", [
            _known(hcas), float(len(counted)), float(len(lost)), float(certainty),
            _known(wanted_gpus), float(len(gpus)), float(len(lost_gpus)),
            _number(vendor, product, board) if product or board else math.nan,
        ])  # fmt: skip
        return queries

    def _devices(self, rdma: Sequence[str], gpus: Sequence[str]) -> tuple[dict[str, str], list[_Device]]:
        """Roles that the configuration gives, by row; and the RDMA devices on a PCI bus with the role they have."""
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
                devices.append(_Device(name, labels[0]["pci"], ports, role, layer, beside))
        return given, devices

    def _configured(self, device: str, port: int, netdev: str) -> str:
        mine = (device, rdma_device.row_name(device, port), netdev)
        for role, patterns in self._config.roles.items():
            if any(fnmatchcase(name, pattern) for pattern in patterns for name in mine if name):
                return role
        return ""

    def _counted(self, devices: list[_Device], rate: float, built: bool) -> tuple[set[str], int]:
        """Devices of the compute network, and what it cost to tell.

        A machine that is built with an adapter beside each GPU has others, too: only those beside a GPU count then.
        With a GPU missing that tells nothing of the adapter that was beside it.
        """
        candidates = [d for d in devices if d.role not in ("storage", "management")]
        beside = [d for d in candidates if d.beside]
        if built and beside:
            return {d.name for d in beside}, 0
        if not rate:
            return {d.name for d in candidates}, 0
        counted, queries = set(), 0
        for device in candidates:
            cost = cost_of(rdma_device.driver_of(self._host, device.name)).port(device.link_layer)
            queries += 2 * cost * len(device.ports)  # state and rate
            if max(self._rate(device.name, port) for port in device.ports) >= rate:
                counted.add(device.name)
        return counted, queries

    def _rate(self, device: str, port: int) -> float:
        """Bytes per second; a link that is down or says nothing may be as fast as any."""
        base = f"{rdma_device.CLASS}/{device}/ports/{port}"
        try:
            if attributes.state(rdma_device.text(self._host, f"{base}/state")) == attributes.DOWN:
                return math.inf
            return attributes.rate(rdma_device.text(self._host, f"{base}/rate"))[0]
        except ValueError:
            return math.inf

    def _manifest(self) -> manifest.Manifest | None:
        path = self._config.manifest
        if not path:
            return None
        try:
            return manifest.parse(self._host.read(path, _MANIFEST_BYTES))
        except HostError as error:
            self._faults.append(Fault(NAME, "", path, error.text))
        except ValueError as error:
            self._faults.append(Fault(NAME, "", path, str(error)))
        return None

    def _missing(self, listed: manifest.Manifest | None) -> list[str]:
        if listed is None:
            return []
        try:
            return listed.missing(frozenset(self._host.list(_PCI)))
        except HostError as error:
            self._faults.append(Fault(NAME, "", error.path, error.text))
            return []


def _known(value: int | None) -> float:
    return math.nan if value is None else float(value)


def _number(*words: str) -> float:
    """A number below 2**53 that is the same for the same words, everywhere."""
    digest = hashlib.blake2b("\0".join(words).encode(), digest_size=8).digest()
    return float(int.from_bytes(digest, "big") >> 11)


def _last(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _names(words: Iterable[str]) -> str:
    every = list(words)
    more = f" and {len(every) - _NAMED} more" if len(every) > _NAMED else ""
    return ", ".join(every[:_NAMED]) + more
