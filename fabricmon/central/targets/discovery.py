"""Discovery of agents: configuration, watched files, DNS, followers such as Kubernetes.

Each source is polled in its own daemon thread, because a dead mount or name server blocks. A failing source keeps its
last targets; its error is in `TargetDiscovery.states`.
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
from typing import Protocol

from fabricmon.central.targets import names
from fabricmon.central.targets.settings import DnsTargets
from fabricmon.forms.decoding import Undecodable, any_json
from fabricmon.runtime import strict_yaml
from fabricmon.runtime.supervise import first_cause, keep

DEFAULT_PORT = 9790  # of an agent
FILE_PERIOD = 2.0  # seconds between two checks of a target file
MAX_FILE_BYTES = 32 << 20  # a file_sd file of 100,000 targets has about 5 MiB
MAX_LABELS = 32  # labels kept of one group of targets

_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^\s:/\[\]@?#]+))(?::(\d{1,5}))?(/[^\s?#]*)?")
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class TargetError(Exception):
    """An invalid list of targets; the text names where."""


@dataclass(frozen=True, slots=True)
class Target:
    """One agent to follow.

    address  "host:port" or "host:port/prefix" with `/stream` below it. Unique.
    labels   of the source: `node` is the expected node name; `rack`, `power`, `unit` go to the topology
    source   "configuration", "file /etc/fabricmon/nodes.json", "dns agents.example"
    scheme   "https", "http", or "": as set in `central.agents`
    """

    address: str
    labels: dict[str, str] = field(default_factory=dict, hash=False)
    source: str = "configuration"
    scheme: str = ""

    @property
    def expected_node(self) -> str:
        """The node name before the agent reports one: the `node` label, else the host part."""
        host = self.address.split("/", 1)[0].rsplit(":", 1)[0].strip("[]")
        return self.labels.get("node") or host

    def url(self, encrypted: bool) -> str:
        """URL of the stream."""
        return f"{'https' if encrypted else 'http'}://{self.address}/stream"


def parse_address(text: str) -> str:
    """`host`, `host:port`, `[v6]:port`, each with an optional `/prefix`, as "host:port[/prefix]". TargetError."""
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
    """The target of an address with optional `http://` or `https://`. TargetError."""
    scheme, there, address = text.rpartition("://")
    if there and scheme not in ("http", "https"):
        raise TargetError(f"{text!r}: expected http://, https:// or no scheme")
    return Target(parse_address(address), scheme=scheme)


def parse_file_sd(data: bytes, source: str, as_json: bool) -> list[Target]:
    """Targets of a file in the Prometheus file_sd format. TargetError names the invalid group.

    The label `__scheme__` is http or https; other labels that begin with `__` are ignored.
    """
    try:
        groups = any_json(data) if as_json else strict_yaml.load(data)
    except Undecodable as error:
        where = f"line {error.line}: " if error.line else ""
        raise TargetError(f"{where}not {'JSON' if as_json else 'YAML'}: {error}") from error
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
            raise TargetError(f"[{group}].labels: {name!r}: {value!r} is not a label with a text value")
        if not name.startswith("__"):
            kept[name] = value
    if len(kept) > MAX_LABELS:
        raise TargetError(f"[{group}].labels: at most {MAX_LABELS}, got {len(kept)}")
    return kept


# --------------------------------------------------------------------------------------------------------
# Sources


class TargetSource(Protocol):
    """A source of targets. `poll` blocks; None: unchanged; after a TargetError the last targets stay."""

    name: str
    period: float

    def poll(self) -> list[Target] | None: ...


class TargetFile:
    """A file_sd file; JSON where its name ends in .json, YAML otherwise. Read when it changed."""

    def __init__(self, path: str) -> None:
        self.path, self.name, self.period = path, f"file {path}", FILE_PERIOD
        self._seen: tuple[int, int, int] | None = None

    def poll(self) -> list[Target] | None:
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
        self._seen = mark  # only now: a half-written file is read again
        return found


class DnsSource:
    """Targets of a DNS name. Where it cannot be resolved, the last targets stay.

    An address that is no longer in DNS stays for `keep` seconds: service discovery removes dead nodes from DNS, and
    fabricmon must report them.
    """

    def __init__(self, config: DnsTargets) -> None:
        self.config, self.name, self.period = config, f"dns {config.name}", float(config.refresh)
        self._last: dict[str, float] = {}

    def expect(self, addresses: Iterable[str]) -> None:
        """Addresses from before a restart, kept as if resolved now. Call before `poll`."""
        now = time.monotonic()
        self._last.update((address, now) for address in addresses)

    def poll(self) -> list[Target]:
        now = time.monotonic()
        for address in self._resolve():
            self._last[parse_address(address)] = now
        self._last = {a: at for a, at in self._last.items() if now - at <= self.config.keep}
        return [Target(address, {}, self.name) for address in sorted(self._last)]

    def _resolve(self) -> list[str]:
        try:
            if self.config.type == "SRV":
                return [f"{s.host}:{s.port}" for s in names.services(self.config.name)]
            family = socket.AF_INET if self.config.type == "A" else socket.AF_INET6
            found = names.addresses(self.config.name, family)
        except names.ResolveError as error:
            raise TargetError(str(error)) from error
        return [f"[{a}]:{self.config.port}" if ":" in a else f"{a}:{self.config.port}" for a in found]


class Follower(Protocol):
    """A source that pushes targets: `follow` runs in the event loop until cancelled and calls `update` with the
    targets (None: unchanged) and the error ("" none)."""

    name: str

    async def follow(self, update: Callable[[list[Target] | None, str], None]) -> None: ...


# --------------------------------------------------------------------------------------------------------
# All sources


@dataclass(slots=True)
class TargetSourceState:
    """State of a source: last targets, current error ("" none), wall time of the last success."""

    targets: list[Target] = field(default_factory=list)
    error: str = ""
    succeeded: float | None = None


def merge(lists: Iterable[Sequence[Target]], limit: int) -> tuple[dict[str, Target], int]:
    """Targets by address, at most `limit`, and the number left out. The first source of an address wins."""
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


class TargetDiscovery:
    """All sources.

    changed   called in the event loop with the merged targets whenever they may have changed
    failed    called with source and error ("" none) when the error changes
    states    source name -> TargetSourceState; refused: number of targets beyond `limit`
    """

    def __init__(
        self,
        static: Sequence[Target],
        sources: Sequence[TargetSource],
        limit: int,
        changed: Callable[[dict[str, Target]], None],
        failed: Callable[[str, str], None],
        followers: Sequence[Follower] = (),
    ) -> None:
        self.states = {name: TargetSourceState() for name in (*(s.name for s in sources), *(f.name for f in followers))}
        self.refused = 0
        self._static, self._sources, self._limit = list(static), list(sources), limit
        self._changed, self._failed = changed, failed
        self._followers, self._following = list(followers), list[asyncio.Task[None]]()
        self._stop = threading.Event()

    def start(self) -> None:
        """Report the static targets and start all sources. Call in the event loop."""
        loop = asyncio.get_running_loop()
        self._report()
        for source in self._sources:
            threading.Thread(target=self._watch, args=(source, loop), name=source.name[:15], daemon=True).start()
        for follower in self._followers:
            self._following.append(loop.create_task(self._follow(follower), name=follower.name[:15]))

    def stop(self) -> None:
        """Stop reporting; threads end after their current poll."""
        self._stop.set()
        for task in self._following:
            task.cancel()

    def warnings(self) -> list[str]:
        """Problems of sources, one sentence each."""
        failing = ((name, state.error) for name, state in self.states.items() if state.error)
        found = [f"Targets of {name} cannot be read, the previous ones are in use: {error}" for name, error in failing]
        if self.refused:
            found.append(f"{self.refused} targets exceed central.pull.max_targets and are not connected")
        return found

    async def _follow(self, follower: Follower) -> None:
        """Restart a source that raises."""

        def failed(error: Exception) -> None:
            self._polled(follower.name, None, f"{type(error).__name__}: {first_cause(error)}")

        await keep(partial(follower.follow, partial(self._polled, follower.name)), failed)

    def _watch(self, source: TargetSource, loop: asyncio.AbstractEventLoop) -> None:
        while not self._stop.is_set():
            found, error = None, ""
            try:
                found = source.poll()
            except TargetError as e:
                error = str(e)
            except Exception as e:  # costs this attempt; the source is asked again
                error = f"{type(e).__name__}: {e}"[:300]
            try:
                loop.call_soon_threadsafe(self._polled, source.name, found, error)
            except RuntimeError:
                return  # the loop is closed: the process ends
            self._stop.wait(source.period)

    def _polled(self, name: str, found: list[Target] | None, error: str) -> None:
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
            self._report()

    def _report(self) -> None:
        merged, self.refused = merge([self._static, *(s.targets for s in self.states.values())], self._limit)
        self._changed(merged)
