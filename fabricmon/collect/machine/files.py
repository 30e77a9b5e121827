"""Small files and directories of a machine; unreadable ones are unknown, not an error."""

from __future__ import annotations

import errno
import re

from fabricmon.host.protocol import Host, HostError

_NUMBER = re.compile(rb"0x[0-9a-fA-F]{1,64}|[0-9]{1,64}")  # int() also takes signs and underscores


def text(host: Host, path: str) -> str:
    """The first line of a file; "" where there is none."""
    try:
        return text_if_there(host, path) or ""
    except HostError:
        return ""


def text_if_there(host: Host, path: str) -> str | None:
    """The first line of a file, None where there is no file. HostError where one cannot be read."""
    try:
        raw = host.read(path, 256)
    except HostError as error:
        if error.errno in (errno.ENOENT, errno.ENODEV):
            return None
        raise
    return raw.decode("utf-8", "replace").strip().split("\n", 1)[0].strip()


def number(host: Host, path: str) -> int | None:
    """The whole number in a file, decimal or 0x hexadecimal, below 2**64; None where there is none."""
    try:
        raw = host.read(path, 256).strip()
    except HostError:
        return None
    if not (_NUMBER.fullmatch(raw)):
        return None
    value = int(raw, 16 if raw.startswith(b"0x") else 10)
    return value if 0 <= value < 2**64 else None


def names(host: Host, directory: str) -> list[str]:
    """Sorted names in a directory; empty where it cannot be listed."""
    try:
        return host.list(directory)
    except HostError:
        return []


def names_if_there(host: Host, directory: str) -> list[str]:
    """As `names`, but HostError where an existing directory cannot be listed."""
    try:
        return host.list(directory)
    except HostError as error:
        if error.errno == errno.ENOENT:
            return []
        raise


def last_of(host: Host, link: str) -> str:
    """The last element of a link's target; "" where there is none."""
    try:
        return host.realpath(link).rsplit("/", 1)[-1]
    except HostError:
        return ""


def pci_address(host: Host, link: str) -> str:
    """ "0000:17:00.0" where a link points to a PCI function, else ""."""
    found = last_of(host, link)
    return found if found.count(":") == 2 and "." in found else ""
