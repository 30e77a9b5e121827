"""A site in simulated time, with a simple model beside it, and what must always hold between the two."""

from __future__ import annotations

import gc
import shutil
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from fabricmon.catalogue.kinds import kind_of
from fabricmon.engine.incidents.incident_draft import LINGER
from fabricmon.engine.incidents.restored import FOUND_AGAIN
from fabricmon.fleet.fleet import EXPECTED_FOR, FORGET_EVERY
from fabricmon.fleet.membership import GONE_TIME
from fabricmon.model import ComponentId, Incident, Kind, Notification, Severity
from fabricmon.notify.batch import DIGEST
from fabricmon.notify.inhibit import inhibits, larger_first
from fabricmon.notify.matchers import parse
from fabricmon.notify.reason import ENDED_MEANWHILE
from fabricmon.notify.route import Receiver
from fabricmon.runtime.clock import Clock
from fabricmon.topology.graph import Adapter, End, Graph, Switch, cable
from fabricmon.topology.groups import GroupNumbers
from fabricmon.topology.infer import annotate
from tests.lifecycle.agents import RATE, Agent, Port
from tests.lifecycle.server import Receivers, SimulatedServer

START = 1_800_000_000.0
STEP = 10.0  # seconds between two ticks
HOSTS, RAILS = 5, 2
DAY = 86_400.0

ENDS_AFTER = LINGER + 300.0
"""Seconds after the last of its parts left within which an incident ends, as the server sees it: lingering, calm and a
tick. Before, a part counts as there for EXPECTED_FOR or GONE_TIME."""
HEALTHY_AFTER = 1274.0 + 1200.0
"""Seconds after the last fault was mended within which all incidents end: the memory of flaps, the reboot grace."""

RECEIVERS: dict[str, tuple[Receiver, ...]] = {
    "all": (Receiver("ops", Severity.INFO), Receiver("pager", Severity.CRITICAL)),
    "some": (Receiver("ops"), Receiver("rail0", matchers=(parse('component=~".*mlx5_0.*"'),))),
    "quiet": (Receiver("ops", send_resolved=False), Receiver("digest", Severity.INFO, digest=3600.0)),
    "late": (Receiver("ops", repeat=0.0), Receiver("boss", after=1800.0)),
}
PARAMS: dict[str, dict[str, Any]] = {
    "default": {},
    "slow": {"link_down": {"hold": 60.0}, "agent_silent": {"after": 300.0}},
    "quick": {"link_down": {"hold": 0.0, "clear": 0.0}, "mass_alarm": {"least": 3}},
}
COUNTS: Counter[str] = Counter()
"""What all runs of this process did."""
AGAIN = ("severity rose", "cause sharpened", "repeat after", "acknowledged", DIGEST)
"""Reasons for which a receiver is notified of an incident that it knows of."""
WAITED = (DIGEST, ENDED_MEANWHILE)
"""Reasons with which an incident may come that ended while it waited for the digest."""


def plan() -> Graph:
    """HOSTS hosts with RAILS adapters, a leaf a rail."""
    switches = {f"0x{0xAA00 + r:016x}": Switch(f"0x{0xAA00 + r:016x}", f"leaf-{r}", 0, ports=64) for r in range(RAILS)}
    adapters, cables = {}, []
    for host in range(HOSTS):
        for rail in range(RAILS):
            id = f"0x{guid(host, rail):016x}"
            adapters[id] = Adapter(id, f"host-{host}", f"mlx5_{rail}")
            cables.append(cable(End(id, 1), End(f"0x{0xAA00 + rail:016x}", host + 1), RATE, 4))
    return annotate(Graph(switches, adapters, tuple(cables), {}, "test"))


def guid(host: int, rail: int) -> int:
    return 0xBB0000 + host * 64 + rail


def words(number: int) -> str:
    text = f"{number:016x}"
    return ":".join(text[n : n + 4] for n in range(0, 16, 4))


class LivingSite:
    """agents    by address, all machines there are
    targets   addresses that the configuration of the server names
    expected  address -> node that its agent was at last, kept over restarts as the store does
    server    None while it is stopped
    failed    something that must hold did not
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
        self.steady = 1000.0
        self.wall_offset = START - 1000.0
        self.agents = {
            f"a{host}:1": Agent(
                f"host-{host}", f"machine-{host}",
                {f"mlx5_{rail}": Port(words(guid(host, rail))) for rail in range(RAILS)},
            )
            for host in range(HOSTS)
        }  # fmt: skip
        self.targets = set(self.agents)
        self.expected = {address: agent.name for address, agent in self.agents.items()}
        self.graph: Graph | None = plan()
        self.params, self.notified = "default", "all"
        self.receivers = Receivers()
        self.names = {agent.name for agent in self.agents.values()}
        self.server: SimulatedServer | None = None
        self.clock = Clock(lambda: self.steady + self.wall_offset, lambda: self.steady)
        self.gone_since: dict[str, float] = {}
        self._read = 0
        self._told: dict[tuple[str, str], Incident] = {}
        self._told_at: dict[tuple[str, str], float] = {}
        self._planned_at: dict[tuple[str, str], float] = {}  # wall time
        self._unsaved_at = -1.0  # the last tick in which nothing could be saved, and so nothing be sent
        self._unsaved_wall = -1.0  # the same as wall time
        self._keys: set[str] = set()
        self._notified = {self.notified}  # in use since the start: what is sent was planned with one of them
        self.failed = False
        COUNTS["runs"] += 1
        self.start()

    # --- the server

    def start(self) -> None:
        COUNTS["starts of a server"] += 1
        self.gone_since.clear()  # a server that starts waits for its targets anew
        self.clock = Clock(lambda: self.steady + self.wall_offset, lambda: self.steady)
        self.server = SimulatedServer(
            self.folder, self.clock, self.receivers, RECEIVERS[self.notified], PARAMS[self.params], self.graph
        )
        COUNTS["restored incidents"] += len(self.server.stored)
        firing = {i.id for i in self.server.engine.incidents() if i.status == "firing"}
        assert firing == self.server.stored, "a start changes what is open"
        self.server.follow(self._followed(), self.expected)

    def stop(self) -> None:
        assert self.server is not None
        self.server.kill()
        self.server = None

    def reconfigure(self) -> None:
        self._notified.add(self.notified)
        if self.server is not None:
            self.server.engine.reconfigure(PARAMS[self.params], self.graph, self.clock.now())
            self.server.evaluator.receivers = RECEIVERS[self.notified]
            self.server.outbox.configure()
            self.server.evaluator.replan()

    def retarget(self) -> None:
        if self.server is not None:
            self.server.follow(self._followed(), self.expected)

    def reshaped(self, agent: Agent) -> None:
        agent.shape += 1
        self.names.add(agent.name)

    def _followed(self) -> dict[str, Agent]:
        return {address: self.agents[address] for address in sorted(self.targets)}

    # --- time

    def run(self, seconds: float, *, heard: bool = True) -> None:
        """Let the server evaluate every STEP; `heard`: agents send."""
        for _ in range(max(int(seconds / STEP), 1)):
            self.steady += STEP
            if self.server is None:
                continue
            if not heard:
                self.gone_since = {key: since + STEP for key, since in self.gone_since.items()}
            else:
                self.server.hear(self._followed())
                self.expected |= {a: p.node for a, p in self.server.register.peers.items() if p.identity is not None}
            self.failed = True
            COUNTS["ticks"] += 1
            self.server.tick()
            self.check()
            self.failed = False

    def pause(self, seconds: float) -> None:
        """The machine of the server is suspended: time passes."""
        self.steady += seconds
        self.gone_since = {key: since + seconds for key, since in self.gone_since.items()}

    # --- what must hold after each tick

    def check(self) -> None:
        server = self.server
        assert server is not None
        assert server.engine.failures() == {}, server.engine.failures()
        incidents = server.engine.incidents()
        self._follow_parts(incidents)
        self._read_received()
        if server.store.broken or server.evaluator.store_error:
            self._unsaved_at, self._unsaved_wall = self.steady, self.clock.now()
        if not server.store.broken and not server.evaluator.store_error and not self.receivers.away:
            self._check_sent(incidents)
        self._check_rows()

    def _exists(self, part: str) -> bool:
        """Model: a target leads to the part's node, and the agent that has this name has the part."""
        node, _, name = part.partition("/")
        mine = [self.agents[address] for address in self.targets if self.expected.get(address, address) == node]
        device = name.rpartition("/")[0]
        return bool(mine) and (not name or any(device in agent.ports or agent.down for agent in mine))

    def _removed(self, part: str) -> bool:
        """Model: the part's node does not exist, or lists the device as removed."""
        node, _, name = part.partition("/")
        mine = [self.agents[address] for address in self.targets if self.expected.get(address, address) == node]
        return not mine or any(name.rpartition("/")[0] in agent.removed and not agent.down for agent in mine)

    def _follow_parts(self, incidents: list[Incident]) -> None:
        """Every open incident has a part that exists, or ends within a stated time."""
        now = self.steady
        dead: set[str] = set()
        for incident in incidents:
            if incident.status != "firing" or not incident.parts or incident.kind == "topology_mismatch":
                continue
            if not any(self._exists(part) for part in incident.parts):
                key = f"{incident.id} {all(self._removed(part) for part in incident.parts)}"
                dead.add(key)
                since = self.gone_since.setdefault(key, now)
                counts = EXPECTED_FOR if key.endswith("True") else GONE_TIME + FORGET_EVERY
                late = now - since - counts - ENDS_AFTER - kind_of(incident.kind).cooling
                assert late < 0, f"{incident.component} ({incident.kind}) has no part {late:.0f} s too long"
        self.gone_since = {key: since for key, since in self.gone_since.items() if key in dead}

    def _read_received(self) -> None:
        """Nothing is sent twice."""
        for note in self.receivers.received[self._read :]:
            assert note.key not in self._keys, f"sent twice: {note.key}"
            self._keys.add(note.key)
            COUNTS["notifications"] += 1
            for incident in note.incidents:
                self._receive(note, incident)
        self._read = len(self.receivers.received)

    def _receive(self, note: Notification, incident: Incident) -> None:
        before = self._told.get((note.receiver, incident.id))
        firing = before is not None and before.status == "firing"
        if incident.status == "firing" and firing and not note.reason.startswith(AGAIN):
            assert before is not None
            used = (r for name in self._notified for r in RECEIVERS[name] if r.name == note.receiver)
            ends_are_sent = all(r.send_resolved for r in used)
            # It may have ended and begun anew while nothing could be sent: of the two only the beginning is news. What
            # was planned before may have been received afterwards.
            unsent = self._unsaved_at > self._told_at[note.receiver, incident.id]
            unsent |= self._unsaved_wall > self._planned_at[note.receiver, incident.id]
            news = incident.since > before.since and (unsent or not ends_are_sent)
            assert news, f"{note.receiver} is notified again of {incident.component}: {note.reason}"
        if incident.status != "firing" and note.reason not in WAITED:
            assert firing, f"{note.receiver} is notified of the end of {incident.component}, not of its beginning"
        self._told[note.receiver, incident.id] = incident
        self._told_at[note.receiver, incident.id] = self.steady
        self._planned_at[note.receiver, incident.id] = note.created

    def _check_sent(self, incidents: list[Incident]) -> None:
        """Nothing is unsent that should be sent."""
        assert self.server is not None
        now = self.clock.now()
        silences = self.server.evaluator.silences.active(now)
        larger = larger_first(incidents)
        open_ = {i.id: i for i in incidents if i.status == "firing"}
        for receiver in self.server.evaluator.receivers:
            for (name, id), last in self._told.items():
                if name == receiver.name and last.status == "firing" and receiver.send_resolved and not receiver.digest:
                    assert id in open_, f"{name} is not notified of the end of {last.component} ({last.kind})"
            if receiver.digest or receiver.after:
                continue
            for incident in open_.values():
                quiet = any(s.covers(incident) for s in silences)
                quiet |= any(inhibits(other, incident) for other in larger if other is not incident)
                if receiver.takes(incident) and not quiet:
                    told = self._told.get((receiver.name, incident.id))
                    assert told is not None, f"{receiver.name} is not notified of {incident.component}"
                    assert told.status == "firing" or not receiver.send_resolved, incident.component

    def _check_rows(self) -> None:
        """Every row belongs to a node that is expected; none has more than it ever had."""
        assert self.server is not None
        fleet = self.server.engine.fleet
        expected = {peer.node for peer in self.server.register.peers.values()}
        assert fleet.nodes.keys() == expected
        for kind, table in fleet.tables.items():
            held = [component for component in table.ids if component.node]
            assert {component.node for component in held} <= expected
            assert len(held) == len(set(held))
            if kind is Kind.NODE:
                assert len(held) == len(expected)

    def check_nothing_is_kept(self) -> None:
        """The engine holds no component of a node that left, after a tick."""
        if self.server is None:
            return
        nodes = self.server.engine.fleet.nodes
        kept = {c for c in components(self.server.engine) if c.node and c.node not in nodes}
        assert not kept, f"kept of nodes that left: {sorted(kept)[:5]}"

    def broken_links(self) -> dict[str, str]:
        """Firing incidents of links and leaves with a part that the model knows to be down: id -> its component."""
        assert self.server is not None
        named = {agent.name: agent for address, agent in self.agents.items() if address in self.targets}
        found: dict[str, str] = {}
        for incident in self.server.engine.incidents():
            if incident.status != "firing" or incident.kind not in ("link_down", "fault_domain"):
                continue
            for part in incident.parts:
                node, _, name = part.partition("/")
                agent = named.get(node)
                port = agent.ports.get(name.rpartition("/")[0]) if agent is not None and agent.down is None else None
                if port is not None and not port.up:
                    found[incident.id] = incident.component
        return found

    # --- the end

    def everything_ends(self) -> None:
        """All is mended: all incidents end. All targets leave: nothing is left of them."""
        if self.failed:
            return
        if self.server is None:
            self.start()
        server = self.server
        assert server is not None
        server.store.broken = self.receivers.away = False
        for window in server.evaluator.maintenance.open(self.clock.now()):
            server.run(server.evaluator.maintenance.expire(window.id, self.clock.now()))
        server.evaluator.silences_changed()
        for address, agent in self.agents.items():
            if agent.down is not None:
                agent.down = None
                server.close_streams(address)
            agent.removed |= {f"mlx5_{rail}" for rail in range(RAILS)} - agent.ports.keys()
            agent.removed |= {device for device in self.devices if device not in agent.ports}
            self.reshaped(agent)
            for port in agent.ports.values():
                port.up, port.half = True, False
        self._all_end(HEALTHY_AFTER + FOUND_AGAIN, LASTING)
        self.targets.clear()
        self.retarget()
        self.run(60)
        self._all_end(FOUND_AGAIN, LASTING[:1])
        self.check_nothing_is_kept()

    def _all_end(self, within: float, but: Collection[str]) -> None:
        """All incidents end within these seconds, but those of some kinds."""
        assert self.server is not None
        began = self.steady
        while left := [i for i in self.server.engine.incidents() if i.status == "firing" and i.kind not in but]:
            assert self.steady - began <= within, [(i.kind, i.component, i.parts, i.history[-3:]) for i in left]
            self.run(60)

    devices = ("mlx5_0", "mlx5_1", "mlx5_7")

    def close(self) -> None:
        if self.server is not None:
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


LASTING = ("topology_mismatch", "repeat_offender")
"""Kinds that end with another topology, and when incidents are 30 days old."""


def components(root: object) -> Iterator[ComponentId]:
    """All component ids that an object refers to, directly or not. Modules, classes and functions are not entered, nor
    the numbers of groups, which keep a bounded number of former names (placing.SPARE_NAMES)."""
    seen, todo = {id(root)}, [root]
    while todo:
        for found in gc.get_referents(todo.pop()):
            if id(found) in seen or isinstance(found, (type, ModuleType, FunctionType, GroupNumbers)):
                continue
            seen.add(id(found))
            if isinstance(found, ComponentId):
                yield found
            todo.append(found)
