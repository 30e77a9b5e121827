"""A file for a bug report: versions, settings, and what the server answers, without secrets.

Of the configuration it has numbers, names of files and hosts; every other text is hidden, and what the configuration's
secret files contain is hidden wherever it occurs. It names nodes, switches, jobs and users: look into it before you
send it. Nothing is sent."""

from __future__ import annotations

import argparse
import gzip
import io
import json
import platform
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from fabricmon import __version__, config
from fabricmon.commands import remote
from fabricmon.commands.config import shown
from fabricmon.config.redact import redacted, scrubbed, secrets_in

EXAMPLES = """\
fabricmon support-bundle
fabricmon support-bundle --config /etc/fabricmon/central.yaml -o report.tar.gz
"""
PATHS = ("overview", "doctor", "incidents?since={since:.0f}", "nodes", "targets", "symptoms", "rails", "jobs",
         "silences", "maintenance")  # fmt: skip
"""What the server is asked for, below the API."""
DAYS = 7  # of resolved incidents
MOST_SECRET = 1 << 16  # bytes of a secret file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", help="configuration file of the server or the agent")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, default=Path("fabricmon-support.tar.gz"),
                        help="file to write (default %(default)s)")  # fmt: skip
    remote.add_arguments(parser, as_json=False)


def run(args: argparse.Namespace) -> int:
    """0; 1 where the file cannot be written. ConfigError for an invalid configuration."""
    tree = shown(config.load(args.config)) if args.config else {}
    files = {"version.txt": _version(), "settings.yaml": yaml.safe_dump(redacted(tree), sort_keys=False)}
    for name, text in _answers(args, time.time()):
        files[f"server/{name}"] = text
    secrets = frozenset(secrets_in(tree)) | frozenset(_of_files(tree)) | frozenset(_credentials(args))
    try:
        args.output.write_bytes(packed({name: scrubbed(text, secrets) for name, text in files.items()}))
    except OSError as error:
        print(f"fabricmon support-bundle: {args.output}: {error.strerror}", file=sys.stderr)
        return 1
    print(f"{args.output}: {len(files)} files; it names nodes and jobs: look into it before you send it")
    return 0


def packed(files: dict[str, str]) -> bytes:
    """The files as a compressed archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, text in files.items():
            data = text.encode(errors="replace")
            about = tarfile.TarInfo(f"fabricmon-support/{name}")
            about.size, about.mode = len(data), 0o600
            archive.addfile(about, io.BytesIO(data))
    return gzip.compress(buffer.getvalue(), mtime=0)


def _version() -> str:
    system = platform.uname()
    kernel = f"{system.system} {system.release} {system.machine}"
    return f"fabricmon {__version__}\nPython {platform.python_version()}\n{kernel}\n"


def _answers(args: argparse.Namespace, now: float) -> Iterator[tuple[str, str]]:
    """Name and text of each answer of the server, or why there is none."""
    for path in PATHS:
        name = path.partition("?")[0]
        try:
            client = remote.CentralClient(args)
            text = json.dumps(client.get(f"/{path.format(since=now - DAYS * 86400.0)}"), indent=1, ensure_ascii=False)
        except remote.RemoteError as error:
            yield f"{name}.error.txt", f"{error}\n"
            if not error.status:
                return
        else:
            yield f"{name}.json", text


def _of_files(value: Any, key: str = "") -> Iterator[str]:
    """What the files that the configuration names as secrets contain, whole and by line."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _of_files(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from _of_files(item, key)
    elif isinstance(value, str) and value and key.endswith("_file") and key not in ("ca_file", "cert_file"):
        yield from _lines(Path(value))


def _credentials(args: argparse.Namespace) -> Iterator[str]:
    """The credentials for the server."""
    for path in (args.token_file, args.user_file):
        if path:
            yield from _lines(Path(path))


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open("rb") as file:
            text = file.read(MOST_SECRET).decode(errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        yield line.strip()
        yield from line.strip().split(":")
