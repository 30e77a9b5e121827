"""Which files make fabricmon a service, and what is to be done with each of them on a machine. Pure.

A file we write ends in a seal, the digest of what stands above it. So a later version can replace what nobody has
touched, and what somebody has edited stays.
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
"""What the units' sandbox (ProtectHome=, PrivateTmp=) shows empty."""


@dataclass(frozen=True, slots=True)
class File:
    """A file of the package and where it belongs.

    source   name in `fabricmon/systemd/files`
    path     absolute path on the machine
    yours    it is a start for the site's own settings: never replaced once edited, whatever is asked
    """

    source: str
    path: str
    yours: bool = False


SHARED = (File("fabricmon.tmpfiles", "/etc/tmpfiles.d/fabricmon.conf"),)


def _service(name: str, config: str) -> tuple[File, ...]:
    return (
        File(f"fabricmon-{name}.sysusers", f"/etc/sysusers.d/fabricmon-{name}.conf"),
        *SHARED,
        File(f"fabricmon-{name}.service", f"{UNITS}/fabricmon-{name}.service"),
        File(f"fabricmon-{name}.default", f"/etc/default/fabricmon-{name}", yours=True),
        File(config, f"/etc/fabricmon/{config}", yours=True),
    )


SERVICES: dict[str, tuple[File, ...]] = {
    "agent": _service("agent", "agent.yaml"),
    "central": _service("central", "central.yaml"),
}

DROP_INS: dict[str, File] = {
    "kernel-log": File("fabricmon-agent.kernel-log.conf", f"{UNITS}/fabricmon-agent.service.d/kernel-log.conf"),
    "umad": File("fabricmon-agent.umad.conf", f"{UNITS}/fabricmon-agent.service.d/umad.conf"),
}


class Action(Enum):
    """What is done with one file; the value is the word for it."""

    WRITE = "wrote"
    UPDATE = "updated"
    SAME = "unchanged"
    KEEP = "kept"
    REMOVE = "removed"


@dataclass(frozen=True, slots=True)
class Step:
    """One file's turn: `text` is what it shall hold, `why` explains an action that is not the obvious one."""

    action: Action
    path: str
    text: str = ""
    why: str = ""


def sealed(text: str) -> str:
    """The text with its seal as the last line."""
    return f"{text}{SEAL}{hashlib.sha256(text.encode()).hexdigest()}\n"


def untouched(text: str) -> bool:
    """Whether the text is one that we sealed and nobody has changed since."""
    body, mark, _ = text.rpartition(SEAL)
    return bool(mark) and sealed(body) == text


def install(
    files: Iterable[File], source: Callable[[str], str], present: Mapping[str, str], program: str, force: bool = False
) -> list[Step]:
    """The steps that bring `files` onto a machine on which `present` (path -> text) stands already.

    program  absolute path of the program that the units start
    force    replace units that were edited, too; never the site's own settings
    """
    steps = []
    for file in dict.fromkeys(files):
        wanted = sealed(source(file.source).replace(PACKAGED, program))
        have = present.get(file.path)
        if have is None:
            steps.append(Step(Action.WRITE, file.path, wanted))
        elif have == wanted:
            steps.append(Step(Action.SAME, file.path))
        elif untouched(have) or (force and not file.yours):
            steps.append(Step(Action.UPDATE, file.path, wanted))
        elif file.yours:
            steps.append(Step(Action.KEEP, file.path, why="your settings"))
        else:
            steps.append(Step(Action.KEEP, file.path, why="edited here; --force replaces it"))
    return steps


def uninstall(files: Iterable[File], present: Mapping[str, str]) -> list[Step]:
    """The steps that take `files` away again; what somebody has edited stays."""
    steps = []
    for file in dict.fromkeys(files):
        have = present.get(file.path)
        if have is None:
            continue
        if untouched(have):
            steps.append(Step(Action.REMOVE, file.path))
        else:
            steps.append(Step(Action.KEEP, file.path, why="edited here"))
    return steps


def unusable(program: str) -> str | None:
    """Why a unit cannot start this program, by its path alone; None when it can."""
    if not re.fullmatch(r"/[\w./+@-]+", program, re.ASCII):
        return f"{program!r}: a unit takes an absolute path without spaces, quotes, % or $"
    for place in HIDDEN:
        if f"{program}/".startswith(f"{place}/"):
            return f"{program} lies under {place}, which the services do not see; install below /opt, for example"
    return None
