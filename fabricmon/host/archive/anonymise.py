"""A recorded machine without names, GUIDs, hardware addresses and serial numbers of the site. Pure."""

from __future__ import annotations

import hashlib
import re

import msgspec

from fabricmon.host.archive import Archive

# bytes of page 00h with the serial number, by the identifier in byte 0 (SFF-8024): SFP, QSFP; all else as CMIS
_SERIAL = {0x03: (68, 84), 0x0C: (196, 212), 0x0D: (196, 212), 0x11: (196, 212)}
_SERIAL_CMIS = (166, 182)
_GUID = re.compile(r"\b[0-9a-f]{4}(?::[0-9a-f]{4}){3}\b", re.I)
_HARDWARE_ADDRESS = re.compile(r"\b[0-9a-f]{2}(?::[0-9a-f]{2}){5,}\b", re.I)
_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.I)
_NO_GUID = re.compile(r"fe80(:0000){3}|0000(:0000){3}", re.I)
_ROUTE = re.compile(r"^(\S+\t)([0-9A-F]{8})\t([0-9A-F]{8})\t", re.M)
_OF_THE_SITE = ("/proc/mounts", "/var/mmfs/", "/etc/beegfs/", "/sys/module/lnet/parameters/ip2nets")
"""Files that name servers and clusters: their whole text is left out."""


def anonymised(archive: Archive, key: bytes) -> Archive:
    """The machine without host name, GUIDs, hardware addresses, routes and identifiers of installation and boot.

    Modules lose their serial numbers; LLDP neighbours are left out. Equal values stay equal under one `key`, so that
    cards and ports still belong together.
    """
    hide, replace = _Hide(archive.name, key), msgspec.structs.replace
    return replace(
        archive,
        name="host",
        boot_id=hide.digest(32, archive.boot_id),
        machine_id=hide.digest(32, archive.machine_id),
        reads={path: hide.file(path, value) for path, value in archive.reads.items()},
        devices=archive.devices and [replace(d, node_guid=hide.guid(d.node_guid)) for d in archive.devices],
        modules={key: _without_serial(archive, key, memory) for key, memory in archive.modules.items()},
        neighbours={},
        gpus=archive.gpus
        and [replace(g, uuid=hide.text(g.uuid), chassis=hide.digest(16, g.chassis)) for g in archive.gpus],
        gpu_fabrics={n: replace(one, cluster=hide.text(one.cluster)) for n, one in archive.gpu_fabrics.items()},
        links=archive.links and [replace(k, address=hide.hardware(k.address)) for k in archive.links],
    )


class _Hide:
    """Digests, under one key, of values that identify a site."""

    def __init__(self, name: str, key: bytes) -> None:
        self._name = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])") if name else None
        self._key = key[:64]

    def digest(self, digits: int, text: str) -> str:
        """The digest of a text in hexadecimal digits; "" for ""."""
        found = hashlib.blake2b(text.lower().encode(), key=self._key, digest_size=digits // 2)
        return found.hexdigest() if text else ""

    def guid(self, text: str) -> str:
        if _NO_GUID.fullmatch(text):
            return text
        found = self.digest(16, text)
        return ":".join(found[i : i + 4] for i in range(0, 16, 4))

    def hardware(self, text: str) -> str:
        """A hardware address; all zeros and all ones stay."""
        count = text.count(":") + 1
        if set(text) <= set("0:") or set(text.lower()) <= set("f:"):
            return text
        found = (self.digest(64, text) * count)[: 2 * count]
        return ":".join(found[i : i + 2] for i in range(0, 2 * count, 2))

    def text(self, value: str) -> str:
        if self._name:
            value = self._name.sub("host", value)
        value = _UUID.sub(lambda m: self.digest(32, m[0]), value)
        value = _GUID.sub(lambda m: self.guid(m[0]), value)
        return _HARDWARE_ADDRESS.sub(lambda m: self.hardware(m[0]), value)

    def file(self, path: str, value: str) -> str:
        """The text of a file."""
        if path.endswith("/node_desc"):
            return "host\n"
        if path.startswith(_OF_THE_SITE):
            return ""
        return _ROUTE.sub(_route, self.text(value)) if path == "/proc/net/route" else self.text(value)


def _route(match: re.Match[str]) -> str:
    target, gateway = (value if value == "00000000" else "0A0A0A0A" for value in (match[2], match[3]))
    return f"{match[1]}{target}\t{gateway}\t"


def _without_serial(archive: Archive, key: str, memory: str) -> str:
    """Page 00h of a module with its serial number blanked; its place depends on the type of the module."""
    name, address, page, _ = key.rsplit("/", 3)
    if (address, page) != ("50", "00"):
        return memory
    lower = archive.modules.get(f"{name}/50/00/0+128", "")
    first = int(key.rsplit("/", 1)[-1].partition("+")[0])
    start, end = _SERIAL.get(ord(lower[0]) if lower else -1, _SERIAL_CMIS)
    start, end = max(0, start - first), max(0, end - first)
    return memory[:start] + " " * len(memory[start:end]) + memory[end:]
