"""A machine in one file: every question collectors asked of it, with the answer. Gzipped JSON.

A file of paths would have to be unpacked, and could name any path; this one is only looked up in. Loading is bounded in
size and checks every type. The anonymised form keeps every counter and replaces what identifies a site.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import secrets
import zlib

import msgspec
from msgspec import Struct

from fabricmon.host.gpus import Gpu, GpuFabric, GpuPcie, NvLink
from fabricmon.host.interfaces import Dcb, Fec, LinkState, Pause
from fabricmon.host.protocol import Link, RdmaDevice, RdmaPort

FORMAT = "fabricmon-host"
VERSION = 1
MOST_BYTES = 256 << 20  # unpacked; a node of 64 devices is below 10 MiB


class ArchiveError(ValueError):
    """A file that is no archive of ours, or one of another version."""


class Trouble(Struct, frozen=True):
    """A question that failed on the machine, and fails the same way again."""

    errno: int
    error: str
    unsupported: bool = False


class FieldAnswer(Struct, frozen=True, array_like=True):
    """What NVML said to one field of one scope: the raw value, None where the code is not 0."""

    value: float | None
    code: int


class Archive(Struct):
    """All answers. Text of files is Latin-1, one character a byte, so that every byte comes back.

    taken, monotonic   wall time and the node's clock at the start of the recording, seconds
    ports, counters    RDMA netlink's answers by "<device index>/<port>"
    statistics_names   and all to `neighbours`: what drivers of interfaces told, by the interface's name
    modules            memory of pluggable modules, Latin-1, by `recorded_interfaces.module_key`
    neighbours         lldpd's JSON under the key ""
    gpus               and all to `gpu_pcie`: what NVML told, by the GPU's number; fields by "<field>/<scope>"
    troubles           what failed, by "<field> <key>": "reads /sys/...", "ports 0/1", "links"
    """

    format: str
    version: int
    fabricmon: str
    name: str
    taken: float
    monotonic: float
    boot_id: str = ""
    machine_id: str = ""
    lists: dict[str, list[str]] = {}
    reads: dict[str, str] = {}
    realpaths: dict[str, str] = {}
    numbers: dict[str, int] = {}
    devices: list[RdmaDevice] | None = None
    ports: dict[str, RdmaPort] = {}
    counters: dict[str, dict[str, int]] = {}
    links: list[Link] | None = None
    statistics_names: dict[str, list[str]] = {}
    statistics: dict[str, list[int]] = {}
    standard_statistics: dict[str, dict[str, int]] = {}
    fec: dict[str, Fec] = {}
    link_states: dict[str, LinkState] = {}
    pauses: dict[str, Pause] = {}
    dcb: dict[str, Dcb] = {}
    modules: dict[str, str] = {}
    neighbours: dict[str, str] = {}
    gpus: list[Gpu] | None = None
    nvlinks: dict[str, list[NvLink]] = {}
    gpu_fields: dict[str, dict[str, FieldAnswer]] = {}
    gpu_fabrics: dict[str, GpuFabric] = {}
    gpu_pcie: dict[str, GpuPcie] = {}
    troubles: dict[str, Trouble] = {}


class _Any(Struct):
    """What tells whether a file is ours, whatever its version."""

    format: str = ""
    version: int = 0


def save(archive: Archive, path: str) -> None:
    """Write, complete or not at all. OSError as the file system says."""
    beside = f"{path}.{os.getpid()}.part"
    try:
        with gzip.open(beside, "wb", compresslevel=6) as file:
            file.write(msgspec.json.format(msgspec.json.encode(archive), indent=1))
        os.replace(beside, path)
    except OSError:
        if os.path.exists(beside):
            os.unlink(beside)
        raise


def load(path: str, most: int = MOST_BYTES) -> Archive:
    """ArchiveError with the reason for a file that is none; OSError where it cannot be read."""
    try:
        with gzip.open(path, "rb") as file:
            data = file.read(most + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ArchiveError(f"{path}: not gzip, cut short or damaged: {error}") from None
    if len(data) > most:
        raise ArchiveError(f"{path}: more than {most} bytes unpacked")
    try:
        head = msgspec.json.decode(data, type=_Any)
        if head.format != FORMAT:
            raise ArchiveError(f"{path}: no machine of fabricmon (format {head.format[:40]!r})")
        if head.version != VERSION:
            raise ArchiveError(f"{path}: version {head.version}, this fabricmon reads {VERSION}")
        return msgspec.json.decode(data, type=Archive)
    except msgspec.DecodeError as error:
        raise ArchiveError(f"{path}: {error}") from None


# bytes of page 00h with the serial number, by the identifier in byte 0 (SFF-8024): SFP, QSFP; all else as CMIS
_SERIAL = {0x03: (68, 84), 0x0C: (196, 212), 0x0D: (196, 212), 0x11: (196, 212)}
_SERIAL_CMIS = (166, 182)
_GUID = re.compile(r"\b[0-9a-f]{4}(?::[0-9a-f]{4}){3}\b", re.I)
_HARDWARE_ADDRESS = re.compile(r"\b[0-9a-f]{2}(?::[0-9a-f]{2}){5,}\b", re.I)
_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.I)
_NO_GUID = re.compile(r"fe80(:0000){3}|0000(:0000){3}", re.I)
_ROUTE = re.compile(r"^(\S+\t)([0-9A-F]{8})\t([0-9A-F]{8})\t", re.M)


_OF_THE_SITE = ("/proc/mounts", "/var/mmfs/", "/etc/beegfs/", "/sys/module/lnet/parameters/ip2nets")
"""Files that name servers and clusters: their text is left out, as it cannot be told what in it is a name."""


def anonymised(archive: Archive, key: bytes = b"") -> Archive:
    """The same machine without host name, GUIDs, hardware addresses, routes and identifiers of installation and boot.

    Modules lose their serial numbers, and what lldpd told is left out: it names the site's switches. What was equal
    stays equal, so cards and ports still belong together. `key` is random unless given, and not kept.
    """
    key = key or secrets.token_bytes(32)

    def hidden(digits: int, text: str) -> str:
        return hashlib.blake2b(text.lower().encode(), key=key[:64], digest_size=digits // 2).hexdigest()

    def guid(text: str) -> str:
        if _NO_GUID.fullmatch(text):
            return text
        found = hidden(16, text)
        return ":".join(found[i : i + 4] for i in range(0, 16, 4))

    def hardware(text: str) -> str:
        count = text.count(":") + 1
        if set(text) <= set("0:") or set(text.lower()) <= set("f:"):
            return text
        found = (hidden(64, text) * count)[: 2 * count]
        return ":".join(found[i : i + 2] for i in range(0, 2 * count, 2))

    def route(match: re.Match[str]) -> str:
        target, gateway = (value if value == "00000000" else "0A0A0A0A" for value in (match[2], match[3]))
        return f"{match[1]}{target}\t{gateway}\t"

    def text(value: str) -> str:
        if archive.name:
            value = re.sub(rf"(?<![\w.-]){re.escape(archive.name)}(?![\w-])", "host", value)
        value = _UUID.sub(lambda m: hidden(32, m[0]), value)
        value = _GUID.sub(lambda m: guid(m[0]), value)
        return _HARDWARE_ADDRESS.sub(lambda m: hardware(m[0]), value)

    def read(path: str, value: str) -> str:
        if path.endswith("/node_desc"):
            return "host\n"
        if path.startswith(_OF_THE_SITE):
            return ""
        return _ROUTE.sub(route, text(value)) if path == "/proc/net/route" else text(value)

    return msgspec.structs.replace(
        archive,
        name="host",
        boot_id=hidden(32, archive.boot_id) if archive.boot_id else "",
        machine_id=hidden(32, archive.machine_id) if archive.machine_id else "",
        reads={path: read(path, value) for path, value in archive.reads.items()},
        devices=archive.devices and [msgspec.structs.replace(d, node_guid=guid(d.node_guid)) for d in archive.devices],
        modules={key: _without_serial(archive, key, memory) for key, memory in archive.modules.items()},
        neighbours={},
        gpus=archive.gpus and [
            msgspec.structs.replace(g, uuid=text(g.uuid), chassis=hidden(16, g.chassis) if g.chassis else "")
            for g in archive.gpus
        ],
        gpu_fabrics={
            key: msgspec.structs.replace(fabric, cluster=text(fabric.cluster))
            for key, fabric in archive.gpu_fabrics.items()
        },
        links=archive.links and [msgspec.structs.replace(k, address=hardware(k.address)) for k in archive.links],
    )


def _without_serial(archive: Archive, key: str, memory: str) -> str:
    """Page 00h of a module with its serial number blanked; which bytes that is depends on the sort of the module."""
    name, address, page, _ = key.rsplit("/", 3)
    if (address, page) != ("50", "00"):
        return memory
    lower = archive.modules.get(f"{name}/50/00/0+128", "")
    first = int(key.rsplit("/", 1)[-1].partition("+")[0])
    start, end = _SERIAL.get(ord(lower[0]) if lower else -1, _SERIAL_CMIS)
    start, end = max(0, start - first), max(0, end - first)
    return memory[:start] + " " * len(memory[start:end]) + memory[end:]
