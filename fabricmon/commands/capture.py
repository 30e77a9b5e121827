"""Save everything that fabricmon reads on this host to one file, for a bug report or a test.

`fabricmon agent --host FILE` runs on the file. Every collector runs twice, with and without RDMA netlink; errors are
saved too.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from fabricmon import __version__
from fabricmon.commands.agent import add_host_arguments, load, open_host
from fabricmon.console.progress import Progress

if TYPE_CHECKING:
    from fabricmon.collect.collector import CollectorKind
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
        help="replace host name, GUIDs, hardware addresses, routes and identifiers; counters are kept",
    )
    parser.add_argument(
        "--nvidia-smi",
        metavar="FILE",
        help="make the archive from the output of `nvidia-smi -q -x` instead of this host",
    )
    parser.add_argument("--nvlink-status", metavar="FILE", help="and the output of `nvidia-smi nvlink --status`")
    parser.add_argument("--config", metavar="FILE", help="configuration file; devices that it excludes are not read")
    add_host_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """0; 1 if the archive cannot be written."""
    from fabricmon.host import archive_file
    from fabricmon.host.protocol import HostError
    from fabricmon.host.recording import RecordingHost

    if args.nvidia_smi:
        return _printed(args)
    root = load(args)
    try:
        recording = RecordingHost(open_host(root, args.host))
        counts = record(recording, root.collect)
        taken = archive_file.anonymised(recording.archive) if args.anonymise else recording.archive
        archive_file.save(taken, args.output)
        recording.close()
    except (HostError, OSError, ValueError) as error:
        print(f"fabricmon capture: {_why(error, args.output)}", file=sys.stderr)
        return 1
    print(f"{args.output}: {counts.devices} readers, {counts.values} values, {counts.faults} unreadable")
    return 0


def _printed(args: argparse.Namespace) -> int:
    from fabricmon.host import archive, archive_file
    from fabricmon.host.archive import nvidia_smi

    try:
        texts = [Path(path).read_text("utf-8", "replace") for path in (args.nvidia_smi, args.nvlink_status) if path]
        name = Path(args.nvidia_smi).stem
        empty = archive.Archive(archive.FORMAT, archive.VERSION, __version__, name, time.time(), 0.0)
        taken = nvidia_smi.recorded(empty, *texts)
        archive_file.save(archive_file.anonymised(taken) if args.anonymise else taken, args.output)
    except (OSError, ValueError) as error:
        print(f"fabricmon capture: {_why(error, args.output)}", file=sys.stderr)
        return 1
    print(f"{args.output}: {len(taken.gpus or ())} GPUs")
    return 0


def _why(error: Exception, output: str) -> str:
    """The archive is written beside its place first: the message has the name that was asked for."""
    if isinstance(error, OSError) and str(error.filename).startswith(str(output)):
        return f"cannot write {output}: {error.strerror}"
    return str(error)


@dataclass(slots=True)
class CaptureCounts:
    """Counts for the summary line: readers, values, unreadable files."""

    devices: int = 0
    values: int = 0
    faults: int = 0


def record(host: Host, collect: Mapping[str, Any]) -> CaptureCounts:
    """Run all collectors on `host`. `collect`: their configurations by name."""
    from fabricmon.collect import COLLECTORS

    counts = CaptureCounts()
    host.boot_id()
    host.machine_id()
    progress = Progress()
    for name, kind in COLLECTORS.items():
        if kind.wide:
            continue  # it reads more than this host
        progress.show(f"reading {name}")
        config = collect[name]
        _run(host, kind, config, counts)
        if getattr(config, "netlink", False):
            _run(host, kind, msgspec.structs.replace(config, netlink=False), CaptureCounts())
    progress.clear()
    return counts


def _run(host: Host, kind: CollectorKind, config: Any, counts: CaptureCounts) -> None:
    from fabricmon.host.protocol import HostError

    collector = kind.open(host, config)
    for key, session in collector.sessions().items():
        try:
            reading = session.read()
        except HostError as error:
            print(f"fabricmon capture: {kind.name} {key}: {error}", file=sys.stderr)
            continue
        finally:
            session.close()
        counts.devices += 1
        counts.values += sum(not math.isnan(value) for value in reading.values)
        counts.faults += len(reading.faults)
    collector.close()
