"""The files of the systemd services, and the steps that install or remove them. Pure.

Every installed file ends in a seal, the digest of the text above it: a later version replaces files that were not
edited, and keeps those that were.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

PACKAGED = "/opt/fabricmon/bin/fabricmon"
"""The program's path in the packaged units."""

SEAL = "# fabricmon install-units: sha256 "

UNITS = "/etc/systemd/system"
HIDDEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")
"""Directories that are empty in the units' sandbox (ProtectHome=, PrivateTmp=)."""


@dataclass(frozen=True, slots=True)
class UnitFile:
    """A file of the package and its place on the machine.

    source   name in `fabricmon/systemd/files`
    path     absolute path on the machine
    yours    a template for the site's settings: never replaced once edited, not even with --force
    """

    source: str
    path: str
    yours: bool = False


SHARED = (UnitFile("fabricmon.tmpfiles", "/etc/tmpfiles.d/fabricmon.conf"),)


def _service(name: str, config: str) -> tuple[UnitFile, ...]:
    return (
        UnitFile(f"fabricmon-{name}.sysusers", f"/etc/sysusers.d/fabricmon-{name}.conf"),
        *SHARED,
        UnitFile(f"fabricmon-{name}.service", f"{UNITS}/fabricmon-{name}.service"),
        UnitFile(f"fabricmon-{name}.default", f"/etc/default/fabricmon-{name}", yours=True),
        UnitFile(config, f"/etc/fabricmon/{config}", yours=True),
    )


SERVICES: dict[str, tuple[UnitFile, ...]] = {
    "agent": _service("agent", "agent.yaml"),
    "central": _service("central", "central.yaml"),
}

DROP_INS: dict[str, UnitFile] = {
    "kernel-log": UnitFile("fabricmon-agent.kernel-log.conf", f"{UNITS}/fabricmon-agent.service.d/kernel-log.conf"),
    "umad": UnitFile("fabricmon-agent.umad.conf", f"{UNITS}/fabricmon-agent.service.d/umad.conf"),
}


class Action(Enum):
    """The action for one file; the value is its word in the output."""

    WRITE = "wrote"
    UPDATE = "updated"
    SAME = "unchanged"
    KEEP = "kept"
    REMOVE = "removed"


@dataclass(frozen=True, slots=True)
class UnitStep:
    """The action for one file: `text` is the new content, `why` the reason if the file is kept."""

    action: Action
    path: str
    text: str = ""
    why: str = ""


def sealed(text: str) -> str:
    """The text with its seal as the last line."""
    return f"{text}{SEAL}{hashlib.sha256(text.encode()).hexdigest()}\n"


def untouched(text: str) -> bool:
    """Whether the text is sealed and not edited since."""
    body, mark, _ = text.rpartition(SEAL)
    return bool(mark) and sealed(body) == text


def install(
    files: Iterable[UnitFile],
    source: Callable[[str], str],
    present: Mapping[str, str],
    program: str,
    force: bool = False,
) -> list[UnitStep]:
    """The steps that install `files` on a machine that has `present` (path -> text).

    program  absolute path of the program that the units start
    force    replace edited units too, but never the site's settings
    """
    steps = []
    for file in dict.fromkeys(files):
        wanted = sealed(source(file.source).replace(PACKAGED, program))
        have = present.get(file.path)
        if have is None:
            steps.append(UnitStep(Action.WRITE, file.path, wanted))
        elif have == wanted:
            steps.append(UnitStep(Action.SAME, file.path))
        elif untouched(have) or (force and not file.yours):
            steps.append(UnitStep(Action.UPDATE, file.path, wanted))
        elif file.yours:
            steps.append(UnitStep(Action.KEEP, file.path, why="your settings"))
        else:
            steps.append(UnitStep(Action.KEEP, file.path, why="edited here; --force replaces it"))
    return steps


def uninstall(files: Iterable[UnitFile], present: Mapping[str, str]) -> list[UnitStep]:
    """The steps that remove `files`, except edited ones."""
    steps = []
    for file in dict.fromkeys(files):
        have = present.get(file.path)
        if have is None:
            continue
        if untouched(have):
            steps.append(UnitStep(Action.REMOVE, file.path))
        else:
            steps.append(UnitStep(Action.KEEP, file.path, why="edited here"))
    return steps


def unusable(program: str) -> str | None:
    """Why the path of this program cannot be used in a unit; None if it can."""
    if not re.fullmatch(r"/[\w./+@-]+", program, re.ASCII):
        return f"{program!r}: a unit takes an absolute path without spaces, quotes, % or $"
    for place in HIDDEN:
        if f"{program}/".startswith(f"{place}/"):
            return f"{program} lies under {place}, which is hidden from the services; install below /opt, for example"
    return None
