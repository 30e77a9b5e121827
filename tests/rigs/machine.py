"""A machine of its own with a real systemd as its first process: a Debian tree under systemd-nspawn.

The tree is made once by mmdebstrap and kept; every boot has its changes in memory, so each begins as Debian left it.
The machine has a network of its own with nothing in it but loopback. Works where the host was not booted by systemd.
Needs root, systemd-nspawn and mmdebstrap, and for the first time a Debian mirror.
"""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "machine"
PACKAGES = "systemd,systemd-sysv,dbus,python3,python3-venv,procps,curl,ca-certificates,git"
BOOT = 60.0
"""Seconds a boot may take; it takes one."""

NEEDED = ("systemd-nspawn", "mmdebstrap", "nsenter", "unshare")


def missing() -> str:
    """What this host lacks for such a machine, "" when nothing."""
    if os.geteuid() != 0:
        return "root"
    return ", ".join(name for name in NEEDED if shutil.which(name) is None)


def tree(further: Sequence[str] = ()) -> Path:
    """The machine's files, with `further` packages; made where they are not there yet."""
    release = platform.freedesktop_os_release()["VERSION_CODENAME"]
    made = CACHE / "-".join([release, *sorted(further)])
    if not made.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix="new-", dir=CACHE))
        command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join([PACKAGES, *further])}",
                   release, str(new), mirror()]  # fmt: skip
        subprocess.run(command, check=True, timeout=1800)  # a minute or two on a machine that does nothing else
        (new / "etc/machine-id").write_text("")
        (new / "etc/hostname").write_text("node0\n")
        new.chmod(0o755)
        new.rename(made)
    return made


def mirror() -> str:
    """The mirror that this host's own apt uses."""
    for file in (Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list")):
        for line in file.read_text().splitlines() if file.exists() else ():
            words = line.split()
            if words[:1] in (["URIs:"], ["deb"]):
                return next(word for word in words[1:] if "://" in word)
    return "http://deb.debian.org/debian"


class Machine:
    """One boot, for the time of a `with`. `binds`: host path -> where it is seen, read-only; `packages`:
    Debian's, besides PACKAGES."""

    def __init__(self, binds: dict[Path, str], options: Sequence[str] = (), packages: Sequence[str] = ()) -> None:
        self._binds, self._options, self._packages = binds, options, packages
        self._init = 0

    def __enter__(self) -> Machine:
        command = [
            "systemd-nspawn", "--directory", str(tree(self._packages)), "--volatile=overlay", "--boot", "--register=no",
            "--keep-unit", "--private-network", "--console=pipe", *self._options,
            *(f"--bind-ro={path}:{place}" for path, place in self._binds.items()),
        ]  # fmt: skip
        # Where the host's /run is on disk nspawn refuses it: it gets one of its own, in a mount namespace of its own.
        inside = 'mount -t tmpfs tmpfs /run && exec "$@"'
        self._log = tempfile.NamedTemporaryFile("w+", prefix="nspawn-")  # closed by __exit__
        self._nspawn = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "sh", "-c", inside, "sh", *command],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT,
        )  # fmt: skip
        end = time.monotonic() + BOOT
        while time.monotonic() < end:
            if self._nspawn.poll() is not None:
                break
            self._init = _first_child(self._nspawn.pid)
            if self._init and self.ask("systemctl is-system-running") in ("running", "degraded"):
                return self
            time.sleep(0.1)
        said = Path(self._log.name).read_text()
        self.__exit__()
        raise RuntimeError(f"the machine did not boot:\n{said}")

    def __exit__(self, *_: object) -> None:
        if self._nspawn.poll() is None:
            self._nspawn.terminate()
            try:
                self._nspawn.wait(20)
            except subprocess.TimeoutExpired:
                os.kill(self._init, signal.SIGKILL)
                self._nspawn.wait()
        self._log.close()

    def run(self, script: str, timeout: float = 120.0) -> subprocess.CompletedProcess[str]:
        """Run a shell script as root in the machine; stdout and stderr come together."""
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
                       "LC_ALL": "C.UTF-8"}  # fmt: skip
        return subprocess.run(
            ["nsenter", "--target", str(self._init), "--all", "/bin/bash", "-c", f"cd /root\n{script}"],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=timeout, check=False,
        )  # fmt: skip

    def ask(self, script: str) -> str:
        """What the script says, whatever its exit code."""
        return self.run(script).stdout.strip()

    def do(self, script: str, timeout: float = 120.0) -> str:
        """What the script says; RuntimeError where it fails."""
        done = self.run(script, timeout)
        if done.returncode:
            raise RuntimeError(f"{script}\nexit {done.returncode}\n{done.stdout}")
        return done.stdout.strip()


def _first_child(pid: int) -> int:
    """The first process of the machine, 0 while there is none: nspawn's only child."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0
    return int(children[0]) if children else 0
