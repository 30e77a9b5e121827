"""A real subnet without hardware: ibsim answers management packets for a netlist, a real opensm brings it up.

Needs no root, no kernel module and no device; several subnets run side by side (each has a socket name of its own).
Programs that talk through libibumad run on it unchanged by `run` and `start`. What is unlike hardware: a lost datagram
comes back at once; a client must be able to write into its working directory, may not have 1,024 files open, and
should keep at most 16 datagrams outstanding; ten clients at a time; `LinkDowned` does not rise by itself.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

READY_WITHIN = 180.0
SWEPT_WITHIN = 600.0
"""Seconds for the first sweep, and for two later: on a busy machine the subnet manager is silent for long before it
has set all routes."""
_SWEPT = re.compile("SUBNET UP|ERRORS DURING INITIALIZATION|Errors during initialization")


@functools.cache
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
        heads = re.findall(r'^(Switch|Ca)\s+(\d+)\s+"([SH]-[0-9a-f]+)"', netlist, re.MULTILINE)
        self._room = (
            ("-N", len(heads) + 8),
            ("-S", sum(kind == "Switch" for kind, _, _ in heads) + 8),
            ("-P", sum(int(ports) + 1 for _, ports, _ in heads) + 64),
        )
        self._host = next(node for kind, _, node in heads if kind == "Ca")  # the subnet manager runs there
        self._sweeps = 0

    def run(self, *argv: str, host: str = "", check: bool = True) -> str:
        """Output of a program attached to a port of an adapter ("H-00bb..."), by default to the first one's."""
        code, text, errors = self.outcome(*argv, host=host)
        if check and code:
            raise RuntimeError(f"{argv} ended with {code}: {errors[-2000:]}")
        return text

    def outcome(self, *argv: str, host: str = "") -> tuple[int, str, str]:
        """Exit status, output and errors of such a program. TimeoutExpired after five minutes."""
        done = subprocess.run(
            [tool(argv[0]), *argv[1:]], env=self.environment(host), cwd=self._clients, capture_output=True, text=True,
            timeout=300, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    @contextmanager
    def start(self, *argv: str, host: str = "", output: IO[bytes] | int = subprocess.DEVNULL) -> Iterator[
        subprocess.Popen[bytes]
    ]:
        """A program that stays, attached like that of `run`; it is killed at the end."""
        process = subprocess.Popen(
            [tool(argv[0]), *argv[1:]], env=self.environment(host), cwd=self._clients, stdin=subprocess.DEVNULL,
            stdout=output, stderr=output,
        )  # fmt: skip
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def _do(self, command: str) -> None:
        for line in self._ask(command).splitlines():
            if line.lstrip().startswith("#") or "unknown" in line:
                raise RuntimeError(f"{command}: {line}")

    # --- faults and readings; `node` is an id as in the netlist ("S-00aa...")

    def unplug(self, node: str, port: int) -> None:
        """Pull the cable at one end."""
        self._do(f'Unlink "{node}"[{port}]')

    def plug(self, node: str, port: int) -> None:
        """Put it back."""
        self._do(f'ReLink "{node}"[{port}]')

    def set_counters(self, counters: Mapping[tuple[str, int], Mapping[str, int]]) -> None:
        """Set counters by "Attribute.Field" ("PortCounters.SymbolErrorCounter"), clipped to the field's width."""
        commands = "".join(
            f'PerformanceSet "{node}"[{port}] {field}={value}\n'
            for (node, port), fields in counters.items()
            for field, value in fields.items()
        )
        (self._dir / "batch").write_text(commands)
        self._do("!batch")

    def drop(self, node: str, percent: int, attribute: int = 0, port: int | None = None) -> None:
        """Drop that share of the datagrams that reach a node (0: none any more), or one port of it, or only those for
        one attribute. Port 0 of a switch is its own: what it forwards is not dropped."""
        at = f"[{port}]" if port is not None else ""
        self._do(f'Error "{node}"{at} {percent}' + (f" {attribute}" if attribute else ""))

    def narrow(self, lid: int, port: int, width: int = 1) -> None:
        """Retrain the link of a switch's port at another width (1 for 1X, 3 for up to 4X)."""
        self.run("ibportstate", str(lid), str(port), "width", str(width))

    def lid(self, node: str) -> int:
        found = re.search(r"\blid (\d+) lmc", self._ask(f'Dump "{node}"'))
        assert found is not None, node
        return int(found[1])

    def swept(self) -> None:
        """Wait until the subnet manager has finished another sweep since the last call."""
        end = time.monotonic() + READY_WITHIN
        while (count := (self._dir / "opensm.log").read_text(errors="replace").count("SUBNET UP")) <= self._sweeps:
            if time.monotonic() > end:
                raise TimeoutError("no new sweep of opensm")
            time.sleep(0.02)
        self._sweeps = count

    def resweep(self) -> None:
        """Have the subnet manager discover the fabric and set all routes again, and wait until it has."""
        log, end = self._dir / "opensm.log", time.monotonic() + SWEPT_WITHIN
        for _ in range(2):  # the first may end one that had begun before
            done = len(_SWEPT.findall(log.read_text(errors="replace")))
            self._manager.send_signal(signal.SIGHUP)
            while len(_SWEPT.findall(log.read_text(errors="replace"))) <= done:
                if time.monotonic() > end:
                    raise TimeoutError(f"opensm does not end its sweep: {log.read_text(errors='replace')[-1000:]}")
                time.sleep(0.1)

    def link(self, node: str, port: int) -> str:
        """The simulator's line of a port: peer, width, speed, states."""
        found = re.search(rf"^\S+\t\[{port}\]\t(.*)$", self._ask(f'Dump "{node}"'), re.MULTILINE)
        return found[1] if found else ""

    def _ask(self, command: str) -> str:
        """The simulator's answer to one console command (126 characters at most)."""
        log = self._dir / "console.log"
        start = log.stat().st_size
        os.write(self._console, f"{command}\n".encode())
        end, pause = time.monotonic() + READY_WITHIN, 0.001
        while True:
            with log.open("rb") as file:
                file.seek(start)
                told = file.read()
            if told.endswith(b"sim> "):
                return told.decode(errors="replace")
            if time.monotonic() > end:
                raise TimeoutError(f"no answer to {command!r}")
            time.sleep(pause)
            pause = min(1.5 * pause, 0.05)

    def environment(self, host: str = "") -> dict[str, str]:
        """What attaches a program to the fabric; it has to run in `clients`."""
        return os.environ | {
            "LD_PRELOAD": str(preload()), "IBSIM_SOCKNAME": self._name, "SIM_HOST": host or self._host,
            "OSM_TMP_DIR": str(self._dir), "OSM_CACHE_DIR": str(self._dir),
        }  # fmt: skip

    @property
    def clients(self) -> Path:
        return self._clients

    def begin(self, stack: ExitStack) -> None:
        fifo = self._dir / "console"
        os.mkfifo(fifo)
        # Open for reading and writing: at end of file ibsim would spin.
        self._console = os.open(fifo, os.O_RDWR | os.O_CLOEXEC)
        stack.callback(os.close, self._console)
        log = stack.enter_context((self._dir / "out").open("wb"))
        env = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"} | {"IBSIM_SOCKNAME": self._name}
        room = [word for option, number in self._room for word in (option, str(number))]
        ibsim = [tool("ibsim"), "-s", "-f", "console.log", *room, "netlist"]
        self._spawn(stack, ibsim, self._dir, env, log, self._console)
        self._wait("console.log", "sim> ")
        opensm = [tool("opensm"), "-d", "2", "-f", str(self._dir / "opensm.log")]
        self._manager = self._spawn(stack, opensm, self._clients, self.environment(), log, subprocess.DEVNULL)
        self._wait("opensm.log", "SUBNET UP", SWEPT_WITHIN)
        self._sweeps = 1

    def _spawn(
        self, stack: ExitStack, argv: list[str], cwd: Path, env: dict[str, str], log: IO[bytes], stdin: int
    ) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(argv, cwd=cwd, env=env, stdin=stdin, stdout=log, stderr=log, start_new_session=True)
        stack.callback(process.wait)
        stack.callback(process.kill)  # opensm takes seconds to leave on SIGTERM
        return process

    def _wait(self, name: str, text: str, within: float = READY_WITHIN) -> None:
        end = time.monotonic() + within
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
        running.begin(stack)
        yield running
