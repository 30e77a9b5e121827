"""Write what fabricmon reads of this host into one file, for a bug report or a test.

`fabricmon agent --host FILE` runs on it. Every collector is run twice, once with RDMA netlink and once without, and
every answer is kept, errors too.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from fabricmon import __version__
from fabricmon.commands.agent import add_host_arguments, load, open_host
from fabricmon.terminal.console import Progress

if TYPE_CHECKING:
    from fabricmon.host.protocol import Host


EXAMPLES = """\
fabricmon capture -o node.host
fabricmon capture -o node.host --anonymise
fabricmon agent --host node.host
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="archive to write (gzip)")
    parser.add_argument(
        "--anonymise",
        action="store_true",
        help="replace host name, GUIDs, hardware addresses, routes and identifiers; every counter stays",
    )
    parser.add_argument(
        "--nvidia-smi",
        metavar="FILE",
        help="what `nvidia-smi -q -x` printed on a machine: make the archive of that, in place of this host",
    )
    parser.add_argument("--nvlink-status", metavar="FILE", help="and what `nvidia-smi nvlink --status` printed there")
    parser.add_argument("--config", metavar="FILE", help="configuration: devices it excludes are not touched")
    add_host_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """0 when the archive is written, 1 when it cannot be."""
    from fabricmon.host import archive
    from fabricmon.host.protocol import HostError
    from fabricmon.host.recording import RecordingHost

    if args.nvidia_smi:
        return _printed(args)
    root = load(args)
    try:
        recording = RecordingHost(open_host(root, args.host))
        counts = record(recording, root.collect)
        taken = archive.anonymised(recording.archive) if args.anonymise else recording.archive
        archive.save(taken, args.output)
        recording.close()
    except (HostError, OSError, ValueError) as error:
        print(f"fabricmon capture: {error}", file=sys.stderr)
        return 1
    print(f"{args.output}: {counts.devices} readers, {counts.values} values, {counts.faults} unreadable")
    return 0


def _printed(args: argparse.Namespace) -> int:
    """An archive of what nvidia-smi printed."""
    from fabricmon.host import archive, nvidia_smi

    try:
        texts = [Path(path).read_text("utf-8", "replace") for path in (args.nvidia_smi, args.nvlink_status) if path]
        name = Path(args.nvidia_smi).stem
        empty = archive.Archive(archive.FORMAT, archive.VERSION, __version__, name, time.time(), 0.0)
        taken = nvidia_smi.recorded(empty, *texts)
        archive.save(archive.anonymised(taken) if args.anonymise else taken, args.output)
    except (OSError, ValueError) as error:
        print(f"fabricmon capture: {error}", file=sys.stderr)
        return 1
    print(f"{args.output}: {len(taken.gpus or ())} GPUs")
    return 0


@dataclass(slots=True)
class Counts:
    """What a recording holds, for the line that tells of it."""

    devices: int = 0
    values: int = 0
    faults: int = 0


def record(host: Host, collect: Mapping[str, Any]) -> Counts:
    """Ask `host` what all collectors ask. `collect` has their configurations by name, as in the configuration file."""
    from fabricmon.collect import COLLECTORS

    counts = Counts()
    host.boot_id()
    host.machine_id()
    progress = Progress()
    for name, module in COLLECTORS.items():
        if getattr(module, "WIDE", False):
            continue  # it reads more than this host
        progress.tell(f"reading {name}")
        config = collect[name]
        _run(host, module, config, counts)
        if getattr(config, "netlink", False):
            _run(host, module, msgspec.structs.replace(config, netlink=False), Counts())
    progress.clear()
    return counts


def _run(host: Host, module: ModuleType, config: Any, counts: Counts) -> None:
    from fabricmon.host.protocol import HostError

    collector = module.open(host, config)
    for key, session in collector.sessions().items():
        try:
            reading = session.read()
        except HostError as error:
            print(f"fabricmon capture: {module.NAME} {key}: {error}", file=sys.stderr)
            continue
        finally:
            session.close()
        counts.devices += 1
        counts.values += sum(not math.isnan(value) for value in reading.values)
        counts.faults += len(reading.faults)
    collector.close()
