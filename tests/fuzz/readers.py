"""Every reader of a file, an answer, a frame or a message of the kernel: what it reads and its one documented error.

Any bytes give a value or that error. `test_readers.py` tries inputs made by Hypothesis and by mutation of the corpus,
`python -m tests.fuzz` (`make fuzz`) searches by coverage. A new reader gets a row here: `test_readers.py` fails for a
module that decodes and has none.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from fabricmon import config, frame, sources
from fabricmon.catalogue.kernel_patterns import PatternMatcher
from fabricmon.central import topology_cache
from fabricmon.central.api import request
from fabricmon.central.prometheus import answers, api
from fabricmon.central.store.rows import Rows
from fabricmon.central.streams import intake
from fabricmon.central.targets import discovery
from fabricmon.collect import COLLECTORS
from fabricmon.collect.machine import pci, storage
from fabricmon.collect.parse import attributes, lldp, manifest, mlxlink_text, module_memory, roce_names
from fabricmon.collect.parse.kernel_events import DeviceRows, KernelEvents
from fabricmon.config import source
from fabricmon.config.source import ConfigError
from fabricmon.fabric import mad
from fabricmon.forms import decoding, times
from fabricmon.forms.decoding import Undecodable, any_json
from fabricmon.host import archive, bulk, kmsg
from fabricmon.host.archive import anonymise, nvidia_smi
from fabricmon.host.messages import dcb, ethtool, netlink, rdma
from fabricmon.host.messages.netlink import NetlinkError
from fabricmon.host.protocol import HostError
from fabricmon.host.recorded import RecordedHost
from fabricmon.jobs import file as jobs_file
from fabricmon.jobs import kubernetes as jobs_kubernetes
from fabricmon.jobs import slurm as jobs_slurm
from fabricmon.jobs.model import ListingError
from fabricmon.kubernetes import objects
from fabricmon.model import Event, Incident, Inventory, Kind, Notification, Severity
from fabricmon.notify import matchers, template
from fabricmon.notify.matchers import MatcherError
from fabricmon.notify.template import TemplateError
from fabricmon.probe import assignment, packet
from fabricmon.recording.reading import Recording, RecordingError
from fabricmon.replay import records
from fabricmon.replay.play import Player
from fabricmon.rules import RULES
from fabricmon.runtime import strict_yaml
from fabricmon.senders import slurm_nodes
from fabricmon.simulate import scenario_file
from fabricmon.topology.hostlist import MOST_OF_A_PLACEMENT, Expansion
from fabricmon.topology.names import NodeNames
from fabricmon.units import Duration, Rate
from fabricmon.web import file as web_file
from fabricmon.web import loaded
from fabricmon.web.admission import certificate
from tests.fuzz.agent import attack

INCIDENT = Incident("id", "firing", Severity.CRITICAL, "link_down", "link(a/b/1,c)", 1.0, 0.9, "title", "why", "action")


class Reader(NamedTuple):
    """reads   what: file, answer, message
    module  that decodes it
    error   its documented errors; (): it has none
    read    of any bytes, as its caller reads them
    size    bytes of the largest input that is tried
    weight  share of the time of a search: cases of slow ones take milliseconds
    """

    reads: str
    module: str
    error: type[Exception] | tuple[type[Exception], ...]
    read: Callable[[bytes], object]
    size: int = 4096
    weight: int = 1


def text(data: bytes) -> str:
    """As files are read: what is no UTF-8 is replaced."""
    return data.decode(errors="replace")


def _file(data: bytes, read: Callable[[str], Any], suffix: str = "") -> Any:
    with tempfile.NamedTemporaryFile(suffix=suffix, dir=_memory()) as made:
        made.write(data)
        made.flush()
        return read(made.name)


@cache
def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def _topology(kind: str) -> Callable[[bytes], object]:
    """The format's own parser, and all that is made of a graph; not `parse_file`, which would hide its errors."""
    return lambda data: sources.merged([sources.SOURCES[kind].graph(text(data), "file", NodeNames())])


def _archive(data: bytes) -> None:
    """Decode a recorded machine, anonymise it, and read it with all collectors."""
    recorded = archive.decode(data)
    archive.encode(anonymise.anonymised(recorded, b"key"))
    host = RecordedHost(recorded)
    for kind in COLLECTORS.values():
        if not kind.wide:
            with contextlib.suppress(HostError):
                for session in kind.open(host, kind.config()).sessions().values():
                    with contextlib.suppress(HostError):
                        session.read()


def _recording(data: bytes) -> None:
    """Read a segment, and give what is in it to an engine."""
    with tempfile.TemporaryDirectory(dir=_memory()) as folder:
        path = Path(folder) / f"000000000000001-run-000000{records.SUFFIX}"
        path.write_bytes(data)
        player = Player()
        for item in Recording([str(path)]).items():
            player.take(item)


def _record(data: bytes) -> None:
    records.meaning(records.PackedRecord(data[0] if data else 0, 1.0, "n", data[1:]))


def _block(data: bytes) -> None:
    list(records.unpack(data))


def _wrapped(data: bytes) -> None:
    """The same records in a block with a right checksum, which no mutation of a whole segment would find."""
    _recording(records.header() + records.block([data]))


def _smi(data: bytes) -> None:
    query, _, links = text(data).partition("\0")
    nvidia_smi.recorded(archive.Archive(archive.FORMAT, archive.VERSION, "0", "n", 0.0, 0.0), query, links)


def _module(data: bytes) -> None:
    memory: dict[module_memory.Piece, bytes] = {}
    rest = io.BytesIO(data)

    def fill(*pieces: module_memory.Piece) -> None:
        memory.update((piece, rest.read(piece.length)) for piece in pieces)

    fill(module_memory.IDENTIFIER)
    fill(*module_memory.first_pieces(memory[module_memory.IDENTIFIER]))
    found = module_memory.module_of(memory)
    fill(*module_memory.monitor_pieces(found), *module_memory.limit_pieces(found))
    module_memory.monitors(found, memory)
    module_memory.limits(found, memory)


def _mads(data: bytes) -> None:
    mad.answer(data)
    mad.description(data)
    for one in vars(mad).values():
        if isinstance(one, mad.Attribute):
            mad.decode(one, data)


def _kernel_message(data: bytes) -> None:
    message = kmsg.decode(data)
    if message is not None:
        KernelEvents().receive(message, DeviceRows({}, {}, {}), 1.0)


def _hello(data: bytes) -> None:
    """A text message of a stream, and what the server makes of an inventory or event."""
    message = frame.decode_text(text(data))
    if isinstance(message, Inventory):
        intake.checked_inventory(message, len(intake.swept_ports(message)))
        intake.Columns().named("n", message)
    elif isinstance(message, Event):
        intake.check_event(message)


def _frame(data: bytes) -> None:
    intake.usable(frame.decode(data))


def _body(data: bytes) -> None:
    """Begin, end and duration of a silence; "": not given."""
    starts, ends, duration = (one or None for one in (*str(text(data)).split("\0"), "", "", "")[:3])
    request.period(starts, ends, duration, 0.0)


def _vector(data: bytes) -> None:
    found = api.vector(200, data)
    for kind in Kind:
        answers.listed_components({kind: found.samples}, "instance")
    answers.alerts(found.samples, found.samples, {rule.name: rule for rule in RULES}, "instance")
    answers.values(found.samples, "le")


class _Silent:
    """A log that nobody reads."""

    def error(self, *_: object, **__: object) -> None: ...


def _stored(data: bytes) -> None:
    rows = Rows(None, _Silent())
    for kind in (Incident, Notification):
        rows.unpacked(kind, "incidents", data)


def _kept_topology(data: bytes) -> None:
    key = bytes(topology_cache.SIZE)
    topology_cache.unpacked(data, data[: topology_cache.SIZE])
    topology_cache.unpacked(key + hashlib.sha256(data).digest() + data, key)


def _jobs_of_pods(data: bytes) -> None:
    found = jobs_kubernetes.pod(any_json(data))
    if isinstance(found, jobs_kubernetes.Pod):
        jobs_kubernetes.jobs([found])


def _matched(data: bytes) -> None:
    matcher = matchers.parse(text(data))
    matchers.matches([matcher], INCIDENT)


def _rendered(data: bytes) -> None:
    template.parse(text(data)).render(lambda name: name)


READERS: dict[str, Reader] = {
    **{f"topology-{kind}": Reader(f"topology file, {kind}", f"sources.formats.{form.parse.__module__.rsplit('.')[-1]}",
                                  sources.SourceError, _topology(kind), weight=4 if kind == "slurm" else 1)
       for kind, form in sources.SOURCES.items()},
    "topology-cache": Reader("topology of the last start", "central.topology_cache", (), _kept_topology),
    "node-names": Reader("node name map", "topology.names", (), lambda data: NodeNames.parse(text(data))),
    "configuration": Reader("configuration file", "config", ConfigError, lambda data: _file(data, config.load)),
    "web-configuration": Reader(
        "web configuration file", "web.file", ConfigError, lambda data: _file(data, web_file.load)),
    "tokens": Reader("token file", "web.loaded", ValueError, lambda data: _file(data, loaded.read_tokens)),
    "certificate": Reader(
        "certificate", "web.admission.certificate", ValueError, lambda data: certificate.not_after(text(data))),
    "targets-yaml": Reader(
        "target file", "central.targets.discovery", discovery.TargetError,
        lambda data: discovery.parse_file_sd(data, "file", False)),
    "targets-json": Reader(
        "target file", "central.targets.discovery", discovery.TargetError,
        lambda data: discovery.parse_file_sd(data, "file", True)),
    "scenario": Reader(
        "scenario file", "simulate.scenario_file", scenario_file.ScenarioFileError,
        lambda data: scenario_file.parse(text(data))),
    "archive": Reader("recorded machine", "host.archive", archive.ArchiveError, _archive, 1 << 16, 3),
    "nvidia-smi": Reader("output of nvidia-smi", "host.archive.nvidia_smi", nvidia_smi.SmiError, _smi),
    "recording": Reader("segment of a recording", "recording.reading", RecordingError, _recording),
    "recorded-block": Reader("block of a recording", "replay.records", records.RecordError, _block),
    "recorded-record": Reader(
        "record of a recording", "replay.records", (records.RecordError, frame.VersionError), _record),
    "recorded-inputs": Reader("inputs of a recorded engine", "replay.play", RecordingError, _wrapped, weight=5),
    "jobs-file": Reader("jobs file", "jobs.file", ListingError, jobs_file.parse),
    "jobs-slurm": Reader("answer of squeue", "jobs.slurm", ListingError, jobs_slurm.parse),
    "jobs-pod": Reader("pod of Kubernetes", "central.jobs.kubernetes_source", Undecodable, _jobs_of_pods),
    "kubernetes-node": Reader("node of Kubernetes", "kubernetes.objects", ValueError, objects.parse_node),
    "kubernetes-agent": Reader("agent's pod", "kubernetes.objects", ValueError, objects.parse_agent_pod),
    "slurm-nodes-json": Reader("answer of slurmrestd", "senders.slurm_nodes", ValueError, slurm_nodes.from_json),
    "slurm-nodes-text": Reader(
        "output of scontrol", "senders.slurm_nodes", (), lambda data: slurm_nodes.from_text(text(data))),
    "evaluator": Reader("answer of a rule evaluator", "central.prometheus.api", api.RuleApiError, _vector),
    "stored-row": Reader("row of the state", "central.store.rows", (), _stored),
    "request": Reader("times of a request", "central.api.request", request.Refused, _body),
    "frame": Reader("frame of an agent", "frame", ValueError, _frame),
    "message": Reader("text message of an agent", "frame", ValueError, _hello),
    "assignment": Reader("what an agent is to probe", "probe.assignment", ValueError, assignment.decode),
    "probed": Reader("results of probes", "probe.assignment", ValueError, assignment.decode_reply),
    "probe-question": Reader("question of a probe", "probe.packet", (), lambda data: packet.asked(data, [data[4:20]])),
    "probe-answer": Reader("answer to a probe", "probe.packet", (), packet.answered),
    "agent": Reader("all that an agent sends", "central.streams.reading", (), attack, weight=10),
    "datagram": Reader("management datagram", "fabric.mad", mad.MadError, _mads),
    "netlink": Reader(
        "datagram of netlink", "host.messages.netlink", NetlinkError,
        lambda data: [netlink.error_of(one) for one in netlink.messages(data)]),
    **{f"netlink-{name}": Reader(f"answer of netlink, {name}", module, NetlinkError, read) for name, module, read in (
        ("dcb", "host.messages.dcb", dcb.decode),
        ("family", "host.messages.ethtool", ethtool.decode_family),
        ("fec", "host.messages.ethtool", ethtool.decode_fec),
        ("link-state", "host.messages.ethtool", ethtool.decode_link_state),
        ("pause", "host.messages.ethtool", ethtool.decode_pause),
        ("statistics", "host.messages.ethtool", ethtool.decode_statistics),
        ("module", "host.messages.ethtool", ethtool.decode_module),
        ("rdma-device", "host.messages.rdma", rdma.decode_device),
        ("rdma-port", "host.messages.rdma", rdma.decode_port),
        ("rdma-counters", "host.messages.rdma", rdma.decode_counters),
    )},
    "kernel-message": Reader("message of the kernel", "host.kmsg", (), _kernel_message),
    "kernel-line": Reader(
        "line of the kernel log", "catalogue.kernel_patterns", (),
        lambda data: PatternMatcher().match(text(data))),
    "counter": Reader("counter file", "host.bulk", HostError, lambda data: bulk.number("file", data)),
    **{f"port-{name}": Reader(f"port's file, {name}", "collect.parse.attributes", ValueError,
                              lambda data, read=read: read(text(data))) for name, read in (
        ("state", attributes.state), ("physical-state", attributes.phys_state), ("rate", attributes.rate),
        ("identifier", attributes.identifier),
    )},
    "pci-speed": Reader("PCIe speed", "collect.machine.pci", ValueError, lambda data: pci.speed(text(data))),
    "pci-width": Reader("PCIe width", "collect.machine.pci", ValueError, lambda data: pci.width(text(data))),
    "pci-errors": Reader(
        "PCIe error counts", "collect.machine.pci", ValueError, lambda data: list(pci.errors(text(data)))),
    "mounts": Reader("/proc/mounts", "collect.machine.storage", (), lambda data: storage.nfs_servers(text(data))),
    "routes": Reader(
        "/proc/net/route", "collect.machine.storage", (), lambda data: storage.route_to("10.0.0.1", text(data))),
    "neighbours": Reader("output of lldpctl", "collect.parse.lldp", ValueError, lldp.parse),
    "manifest": Reader("hardware manifest", "collect.parse.manifest", ValueError, manifest.parse),
    "mlxlink": Reader(
        "output of mlxlink", "collect.parse.mlxlink_text", (), lambda data: mlxlink_text.parse(text(data))),
    "module-memory": Reader("memory of a module", "collect.parse.module_memory", ValueError, _module),
    "statistic-names": Reader(
        "names of driver statistics", "collect.parse.roce_names", (),
        lambda data: roce_names.plan(text(data).split("\n"))),
    "host-list": Reader(
        "host list", "topology.hostlist", ValueError,
        lambda data: Expansion(MOST_OF_A_PLACEMENT).hostlist(text(data))),
    "matcher": Reader("matcher of a silence", "notify.matchers", MatcherError, _matched, 1024),
    "template": Reader("template of messages", "notify.template", TemplateError, _rendered),
    "duration": Reader("duration", "units", ValueError, lambda data: Duration.parse(text(data))),
    "rate": Reader("rate", "units", ValueError, lambda data: Rate.parse(text(data))),
    "time": Reader("time", "forms.times", (), lambda data: times.wall_time(text(data))),
    "yaml": Reader("any YAML", "runtime.strict_yaml", Undecodable, lambda data: strict_yaml.load(text(data))),
    "yaml-nodes": Reader(
        "YAML with lines", "config.source", ConfigError, lambda data: source.parse(text(data), "file").plain()),
    "json": Reader("any JSON", "forms.decoding", Undecodable, any_json),
    "loose-json": Reader("JSON with NaN", "forms.decoding", Undecodable, decoding.loose_json),
}  # fmt: skip
"""By name of the folder of its corpus."""
