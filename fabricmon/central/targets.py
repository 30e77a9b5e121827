"""Which agents there should be: from the configuration, from watched files, from DNS.

Each source is looked at in a daemon thread of its own, since a file on a dead mount or a dead name server blocks for
as long as it likes. A source that fails keeps what it gave last; what is wrong with it is in `Discovery.states`.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import msgspec
import yaml

from fabricmon.central import dns
from fabricmon.central.settings import DnsTargets
from fabricmon.runtime.supervise import first_cause, keep

DEFAULT_PORT = 9790  # of an agent
FILE_PERIOD = 2.0  # seconds between two looks whether a target file changed
MAX_FILE_BYTES = 32 << 20  # a file_sd file of 100,000 targets has about 5 MiB
MAX_LABELS = 32  # labels kept of one group of targets

_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^\s:/\[\]@?#]+))(?::(\d{1,5}))?(/[^\s?#]*)?")
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class TargetError(Exception):
    """A list of targets that cannot be used; the text says where it is wrong."""


@dataclass(frozen=True, slots=True)
class Target:
    """One agent to follow.

    address  "host:port" or "host:port/prefix": `/stream` is below it. Unique.
    labels   what the source says of the node: `node` is the name to expect, `rack`, `power`, `unit` go to the
             topology.
    source   where it comes from, in words: "configuration", "file /etc/fabricmon/nodes.json", "dns agents.example".
    scheme   "https", "http", or "" for what `central.agents` says.
    """

    address: str
    labels: dict[str, str] = field(default_factory=dict, hash=False)
    source: str = "configuration"
    scheme: str = ""

    @property
    def expected_node(self) -> str:
        """The node this should turn out to be, before its agent said a name: the `node` label, else the host part."""
        host = self.address.split("/", 1)[0].rsplit(":", 1)[0].strip("[]")
        return self.labels.get("node") or host

    def url(self, encrypted: bool) -> str:
        """Where the stream is."""
        return f"{'https' if encrypted else 'http'}://{self.address}/stream"


def parse_address(text: str) -> str:
    """`host`, `host:port`, `[v6]:port`, each with an optional `/prefix`, as "host:port[/prefix]". TargetError else."""
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise TargetError(f"{text!r}: expected HOST, HOST:PORT or HOST:PORT/PREFIX")
    six, name, port, prefix = found.groups()
    number = int(port) if port else DEFAULT_PORT
    if not 1 <= number <= 65535:
        raise TargetError(f"{text!r}: a port is 1 to 65535")
    host = f"[{six}]" if six else name
    return f"{host}:{number}{(prefix or '').rstrip('/')}"


def parse_target(text: str) -> Target:
    """An address, with `http://` or `https://` before it where it is not to be as `central.agents` says. TargetError
    else."""
    scheme, there, address = text.rpartition("://")
    if there and scheme not in ("http", "https"):
        raise TargetError(f"{text!r}: expected http:// or https://, or neither")
    return Target(parse_address(address), scheme=scheme)


def parse_file_sd(data: bytes, source: str, as_json: bool) -> list[Target]:
    """Targets of a file in the Prometheus file_sd format. TargetError names the group that is wrong.

    The label `__scheme__` is http or https; others that begin with `__` are for Prometheus's relabelling and are left
    out.
    """
    try:
        groups = msgspec.json.decode(data) if as_json else yaml.load(data, Loader=_LOADER)
    except (msgspec.DecodeError, yaml.YAMLError, UnicodeError, ValueError, RecursionError) as error:
        raise TargetError(f"not {'JSON' if as_json else 'YAML'}: {' '.join(str(error).split())}") from error
    if not isinstance(groups, list):
        raise TargetError("expected a list of groups with `targets` and `labels`; an empty list is written []")
    found = []
    for i, group in enumerate(groups):
        if not isinstance(group, dict) or not isinstance(group.get("targets"), list):
            raise TargetError(f"[{i}]: expected a group with a list `targets`")
        labels = _labels(group.get("labels") or {}, i)
        scheme = _scheme((group.get("labels") or {}).get("__scheme__", ""), i)
        for text in group["targets"]:
            if not isinstance(text, str):
                raise TargetError(f"[{i}].targets: expected text, got {text!r}")
            try:
                found.append(Target(parse_address(text), labels, source, scheme))
            except TargetError as error:
                raise TargetError(f"[{i}].targets: {error}") from error
    return found


_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _scheme(scheme: object, group: int) -> str:
    if scheme in ("", "http", "https"):
        return str(scheme)
    raise TargetError(f"[{group}].labels: __scheme__: expected http or https, got {scheme!r}")


def _labels(labels: object, group: int) -> dict[str, str]:
    if not isinstance(labels, dict):
        raise TargetError(f"[{group}].labels: expected keys and values")
    kept = {}
    for name, value in labels.items():
        if not isinstance(name, str) or not _LABEL.fullmatch(name) or not isinstance(value, str):
            raise TargetError(f"[{group}].labels: {name!r}: {value!r} is no label with a text")
        if not name.startswith("__"):
            kept[name] = value
    if len(kept) > MAX_LABELS:
        raise TargetError(f"[{group}].labels: at most {MAX_LABELS}, got {len(kept)}")
    return kept


# --------------------------------------------------------------------------------------------------------
# Sources


class Source(Protocol):
    """Somewhere targets come from. `look` blocks; None means nothing changed; TargetError keeps what was."""

    name: str
    period: float

    def look(self) -> list[Target] | None: ...


class FileSource:
    """A file_sd file; JSON where its name ends in .json, YAML otherwise. Read again when it changed."""

    def __init__(self, path: str) -> None:
        self.path, self.name, self.period = path, f"file {path}", FILE_PERIOD
        self._seen: tuple[int, int, int] | None = None

    def look(self) -> list[Target] | None:
        try:
            with open(self.path, "rb") as file:
                state = os.fstat(file.fileno())
                mark = (state.st_ino, state.st_size, state.st_mtime_ns)
                if mark == self._seen:
                    return None
                data = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            self._seen = None
            raise TargetError(f"cannot be read: {error.strerror}") from error
        if len(data) > MAX_FILE_BYTES:
            raise TargetError(f"larger than {MAX_FILE_BYTES} bytes")
        found = parse_file_sd(data, self.name, self.path.endswith(".json"))
        self._seen = mark  # only now: a file caught half-written is looked at again
        return found


class DnsSource:
    """Targets behind a DNS name. A name that leads nowhere keeps what it gave before.

    An address the name no longer gives stays for `keep` seconds: service discovery takes a dead node out of DNS, and
    that node is exactly the one to be told of.
    """

    def __init__(self, config: DnsTargets) -> None:
        self.config, self.name, self.period = config, f"dns {config.name}", float(config.refresh)
        self._last: dict[str, float] = {}

    def expect(self, addresses: Iterable[str]) -> None:
        """Addresses it gave before a restart: kept as if it had given them now. Call before `look`."""
        now = time.monotonic()
        self._last.update((address, now) for address in addresses)

    def look(self) -> list[Target]:
        now = time.monotonic()
        for address in self._resolve():
            self._last[parse_address(address)] = now
        self._last = {a: at for a, at in self._last.items() if now - at <= self.config.keep}
        return [Target(address, {}, self.name) for address in sorted(self._last)]

    def _resolve(self) -> list[str]:
        try:
            if self.config.type == "SRV":
                return [f"{s.host}:{s.port}" for s in dns.services(self.config.name)]
            family = socket.AF_INET if self.config.type == "A" else socket.AF_INET6
            found = dns.addresses(self.config.name, family)
        except dns.DnsError as error:
            raise TargetError(str(error)) from error
        return [f"[{a}]:{self.config.port}" if ":" in a else f"{a}:{self.config.port}" for a in found]


class Follower(Protocol):
    """Somewhere targets come from that tells of itself: `follow` runs in the event loop until cancelled, and tells
    what it gives now (None: as before) and what is wrong ("": nothing)."""

    name: str

    async def follow(self, tell: Callable[[list[Target] | None, str], None]) -> None: ...


# --------------------------------------------------------------------------------------------------------
# All of them together


@dataclass(slots=True)
class SourceState:
    """How a source stands: targets it gave last, "" or what is wrong with it now, wall time of its last success."""

    targets: list[Target] = field(default_factory=list)
    error: str = ""
    succeeded: float | None = None


def merge(lists: Iterable[Sequence[Target]], limit: int) -> tuple[dict[str, Target], int]:
    """Targets by address, at most `limit`, and how many were left out. The first source that names one wins."""
    merged: dict[str, Target] = {}
    left = 0
    for targets in lists:
        for target in targets:
            if target.address in merged:
                continue
            if len(merged) >= limit:
                left += 1
            else:
                merged[target.address] = target
    return merged, left


class Discovery:
    """All sources together.

    changed   called in the event loop with the merged targets whenever they may have changed
    states    source name -> SourceState; refused: targets beyond `limit`
    """

    def __init__(
        self,
        static: Sequence[Target],
        sources: Sequence[Source],
        limit: int,
        changed: Callable[[dict[str, Target]], None],
        failed: Callable[[str, str], None],
        followers: Sequence[Follower] = (),
    ) -> None:
        self.states = {name: SourceState() for name in (*(s.name for s in sources), *(f.name for f in followers))}
        self.refused = 0
        self._static, self._sources, self._limit = list(static), list(sources), limit
        self._changed, self._failed = changed, failed
        self._followers, self._following = list(followers), list[asyncio.Task[None]]()
        self._stop = threading.Event()

    def start(self) -> None:
        """Tell the static targets at once and begin to look at the sources. Call in the event loop."""
        loop = asyncio.get_running_loop()
        self._tell()
        for source in self._sources:
            threading.Thread(target=self._watch, args=(source, loop), name=source.name[:15], daemon=True).start()
        for follower in self._followers:
            self._following.append(loop.create_task(self._follow(follower), name=follower.name[:15]))

    def stop(self) -> None:
        """Threads end after what they are doing; nothing is told any more."""
        self._stop.set()
        for task in self._following:
            task.cancel()

    async def _follow(self, follower: Follower) -> None:
        """A fault of ours in one source costs that source a moment only."""

        def failed(error: Exception) -> None:
            self._looked(follower.name, None, f"{type(error).__name__}: {first_cause(error)}")

        await keep(partial(follower.follow, partial(self._looked, follower.name)), failed)

    def _watch(self, source: Source, loop: asyncio.AbstractEventLoop) -> None:
        while not self._stop.is_set():
            found, error = None, ""
            try:
                found = source.look()
            except TargetError as e:
                error = str(e)
            try:
                loop.call_soon_threadsafe(self._looked, source.name, found, error)
            except RuntimeError:
                return  # the loop is closed: the process is about to end
            self._stop.wait(source.period)

    def _looked(self, name: str, found: list[Target] | None, error: str) -> None:
        if self._stop.is_set():
            return
        state = self.states[name]
        if error != state.error:
            self._failed(name, error)
        state.error = error
        if not error:
            state.succeeded = time.time()
        if found is not None and found != state.targets:
            state.targets = found
            self._tell()

    def _tell(self) -> None:
        merged, self.refused = merge([self._static, *(s.targets for s in self.states.values())], self._limit)
        self._changed(merged)
