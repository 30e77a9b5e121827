"""A machine in one file: the questions of all collectors with their answers. Pure; files: archive_file.py.

Nothing is unpacked, so an archive cannot name a path to write to. Decoding checks every type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from fabricmon.forms.decoding import Undecodable, json_value
from fabricmon.host.protocol import HostError, Link, RdmaDevice, RdmaPort, Unsupported
from fabricmon.host.protocol.gpus import Gpu, GpuFabric, GpuPcie, NvLink
from fabricmon.host.protocol.interfaces import Dcb, Fec, LinkState, Pause

FORMAT = "fabricmon-host"
VERSION = 1
MOST_ANSWERS = 200_000  # of one type in one recording
_T = TypeVar("_T")


class ArchiveError(ValueError):
    """A file that is not an archive, or has another version."""


class Trouble(Struct, frozen=True):
    """The error of a question that failed on the machine."""

    errno: int
    error: str
    unsupported: bool = False

    @classmethod
    def from_error(cls, error: HostError) -> Trouble:
        return cls(error.errno, error.text, isinstance(error, Unsupported))


class FieldAnswer(Struct, frozen=True, array_like=True):
    """NVML's answer to one field of one scope: the raw value, None where the code is not 0."""

    value: float | None
    code: int


class Archive(Struct):
    """All answers. Text of files is Latin-1: one character a byte.

    taken, monotonic   wall time and the node's clock at the start of the recording, seconds
    ports, counters    RDMA netlink's answers by "<device index>/<port>"
    statistics_names   and all to `neighbours`: answers of interfaces' drivers by the interface's name
    modules            memory of pluggable modules, Latin-1, by `interfaces.module_key`
    neighbours         lldpd's JSON under the key ""
    gpus               and all to `gpu_pcie`: NVML's answers by the GPU's number; fields by "<field>/<scope>"
    troubles           errors by "<field> <key>": "reads /sys/...", "ports 0/1", "links"
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

    def answer(self, question: str, found: _T | None) -> _T:
        """`found`, or the recorded error, or Unsupported."""
        if found is not None:
            return found
        trouble = self.troubles.get(question)
        if trouble is None:
            raise Unsupported(question, 0, "not in the recording")
        raise (Unsupported if trouble.unsupported else HostError)(question, trouble.errno, trouble.error)

    def ask(self, question: str, ask: Callable[[], _T]) -> _T:
        """The result of `ask`; its HostError is recorded for `question`."""
        try:
            return ask()
        except HostError as error:
            if len(self.troubles) < MOST_ANSWERS:
                self.troubles[question] = Trouble.from_error(error)
            raise

    def keep(self, field: str, key: str, ask: Callable[[], _T], store: Callable[[_T], Any] = lambda found: found) -> _T:
        """The result of `ask`, recorded in a field (its HostError too). `store` converts it to the field's type."""
        answers = getattr(self, field)
        if len(answers) >= MOST_ANSWERS and key not in answers:
            raise HostError(key, 0, f"a recording has at most {MOST_ANSWERS} {field}")
        found = self.ask(f"{field} {key}", ask)
        answers[key] = store(found)
        return found


class _Any(Struct):
    """Format and version of any archive."""

    format: str = ""
    version: int = 0


def encode(archive: Archive) -> bytes:
    """The archive as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(archive), indent=1)


def decode(data: bytes) -> Archive:
    """The archive in JSON; ArchiveError with the reason for an invalid one."""
    try:
        head = json_value(data, _Any)
        if head.format != FORMAT:
            raise ArchiveError(f"not a recorded machine (format {head.format[:40]!r})")
        if head.version != VERSION:
            raise ArchiveError(f"version {head.version}, this fabricmon reads {VERSION}")
        return json_value(data, Archive)
    except Undecodable as error:
        raise ArchiveError(str(error)) from None
