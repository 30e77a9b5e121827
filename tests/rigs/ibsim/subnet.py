"""A real subnet without hardware: ibsim answers management packets for a netlist, a real opensm brings it up.

Needs no root, no kernel module and no device; several subnets run side by side (each has a socket name of its own).
Programs that talk through libibumad run on it unchanged by `run`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

READY_WITHIN = 60.0


def preload() -> Path | None:
    """The library that sends libibumad's packets to ibsim; None where it is not installed."""
    found = sorted(Path("/usr").glob("lib*/**/umad2sim/libumad2sim.so"))
    return found[0] if found else None


def tool(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if found is None:
        raise RuntimeError(f"{name} is not installed")
    return found


class Subnet:
    """A running subnet; see `subnet`."""

    def __init__(self, directory: Path, netlist: str) -> None:
        self._dir, self._clients = directory, directory / "clients"
        self._clients.mkdir()
        (directory / "netlist").write_text(netlist)
        self._name = f"fabricmon-{os.getpid()}-{os.urandom(3).hex()}"
        first = re.search(r'"(H-[0-9a-f]+)"', netlist)
        assert first is not None, "the subnet manager needs an adapter to run on"
        self._host = first[1]

    def run(self, *argv: str) -> str:
        """Output of a program attached to the first adapter's port."""
        done = subprocess.run(
            [tool(argv[0]), *argv[1:]], env=self._env(), cwd=self._clients, capture_output=True, text=True, timeout=60,
            check=True,
        )  # fmt: skip
        return done.stdout

    def unplug(self, node: str, port: int) -> None:
        """Pull the cable at one end; `node` is an id as in the netlist ("S-00aa...")."""
        os.write(self._console, f'Unlink "{node}"[{port}]\n'.encode())

    def _env(self) -> dict[str, str]:
        return os.environ | {
            "LD_PRELOAD": str(preload()), "IBSIM_SOCKNAME": self._name, "SIM_HOST": self._host,
            "OSM_TMP_DIR": str(self._dir), "OSM_CACHE_DIR": str(self._dir),
        }  # fmt: skip

    def start(self, stack: ExitStack) -> None:
        fifo = self._dir / "console"
        os.mkfifo(fifo)
        # Open for reading and writing: at end of file ibsim would spin.
        self._console = os.open(fifo, os.O_RDWR | os.O_CLOEXEC)
        stack.callback(os.close, self._console)
        log = stack.enter_context((self._dir / "out").open("wb"))
        env = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"} | {"IBSIM_SOCKNAME": self._name}
        self._spawn(stack, [tool("ibsim"), "-s", "-f", "console.log", "netlist"], self._dir, env, log, self._console)
        self._wait("console.log", "sim> ")
        opensm = [tool("opensm"), "-d", "2", "-f", str(self._dir / "opensm.log")]
        self._spawn(stack, opensm, self._clients, self._env(), log, subprocess.DEVNULL)
        self._wait("opensm.log", "SUBNET UP")

    def _spawn(
        self, stack: ExitStack, argv: list[str], cwd: Path, env: dict[str, str], log: IO[bytes], stdin: int
    ) -> None:
        process = subprocess.Popen(argv, cwd=cwd, env=env, stdin=stdin, stdout=log, stderr=log, start_new_session=True)
        stack.callback(process.wait)
        stack.callback(process.kill)  # opensm takes seconds to leave on SIGTERM

    def _wait(self, name: str, text: str) -> None:
        end = time.monotonic() + READY_WITHIN
        path = self._dir / name
        while not (path.exists() and text in path.read_text(errors="replace")):
            if time.monotonic() > end:
                raise TimeoutError(f"no {text!r} in {name}: {(self._dir / 'out').read_text(errors='replace')[-2000:]}")
            time.sleep(0.02)


@contextmanager
def subnet(directory: Path, netlist: str) -> Iterator[Subnet]:
    """A subnet of the netlist's nodes that is up; its programs end with the context."""
    with ExitStack() as stack:
        running = Subnet(directory, netlist)
        running.start(stack)
        yield running
