"""A private Docker engine for the time of a `with`, and a base image for where no registry can be reached.

No bridge, no firewall rules, its own data: nothing of an engine that the host may have is touched. Needs root, dockerd
and docker, and for the base mmdebstrap with a Debian mirror.
"""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "engine"
CLIENT = "/usr/bin/docker" if os.path.exists("/usr/bin/docker") else "docker"
"""Debian's client has BuildKit in it, where a newer one asks for a plug-in."""

NEEDED = ("dockerd", CLIENT, "mmdebstrap")
PACKAGES = "python3,python3-venv,python3-pip,python-is-python3,ca-certificates"


def missing() -> str:
    """What this host lacks for an engine, "" when nothing."""
    if os.geteuid() != 0:
        return "root"
    return ", ".join(name for name in NEEDED if shutil.which(name) is None)


class Engine:
    """dockerd on a socket of its own; `environ`: what a client needs to find it."""

    def __enter__(self) -> Engine:
        self._folder = Path(tempfile.mkdtemp(prefix="engine-"))
        socket = f"unix://{self._folder}/docker.sock"
        self.environ = {**os.environ, "DOCKER_HOST": socket, "DOCKER_BUILDKIT": "1"}
        with (self._folder / "log").open("w") as log:
            self._dockerd = subprocess.Popen(
                ["dockerd", "--data-root", str(self._folder / "data"), "--exec-root", str(self._folder / "exec"),
                 "--pidfile", str(self._folder / "pid"), "--host", socket, "--iptables=false", "--ip6tables=false",
                 "--bridge=none"],
                stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
        end = time.monotonic() + 120
        while self.run("info").returncode:
            if self._dockerd.poll() is not None or time.monotonic() > end:
                said = (self._folder / "log").read_text()[-2000:]
                self.__exit__()
                raise RuntimeError(f"dockerd does not start:\n{said}")
            time.sleep(0.2)
        return self

    def __exit__(self, *_: object) -> None:
        running = self.run("ps", "--quiet").stdout.split() if self._dockerd.poll() is None else []
        if running:
            self.run("kill", *running)
        self._dockerd.send_signal(signal.SIGTERM)
        try:
            self._dockerd.wait(30)
        except subprocess.TimeoutExpired:
            self._dockerd.kill()
            self._dockerd.wait()
        subprocess.run(["umount", str(self._folder / "exec/netns/default")], capture_output=True, check=False)
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, *words: str, timeout: float = 120.0) -> subprocess.CompletedProcess[str]:
        """One command of the client; stdout and stderr come together."""
        return subprocess.run([CLIENT, *words], env=self.environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=timeout, check=False)  # fmt: skip

    def do(self, *words: str, timeout: float = 120.0) -> str:
        """What the client says; RuntimeError where it fails."""
        done = self.run(*words, timeout=timeout)
        if done.returncode:
            raise RuntimeError(f"docker {' '.join(words)}\nexit {done.returncode}\n{done.stdout[-3000:]}")
        return done.stdout.strip()

    def build(self, tag: str, context: Path, **arguments: str) -> None:
        """Build the Dockerfile of a folder without using what was built before."""
        given = (word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}"))
        options = ("--no-cache", "--network", "host", "--progress", "plain", "--tag", tag, *given)
        self.do("build", *options, str(context), timeout=600)

    def base(self, pinned: str) -> str:
        """The base image: as it is pinned, or Debian's Python in its place.

        What a Dockerfile takes from the official image's own /usr/local is not proved by the stand-in.
        """
        path = "ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin"
        return self.pulled(pinned) or self.stand_in(pinned, PACKAGES, 'CMD ["python3"]', path)

    def pulled(self, pinned: str) -> str:
        """The image from its registry; "" where that cannot be reached."""
        return pinned if self.run("pull", "--quiet", pinned, timeout=60).returncode == 0 else ""

    def stand_in(self, pinned: str, packages: str, *changes: str) -> str:
        """Debian with some packages, under the name of an image, without its digest."""
        name = pinned.partition("@")[0]
        print(f"  no registry can be reached: {name} is made of Debian's own packages here ({packages})")
        release = platform.freedesktop_os_release()["VERSION_CODENAME"]
        tar = CACHE / (f"{release}.tar" if packages == PACKAGES else f"{release}-{packages}.tar")
        if not tar.exists():
            _make(tar, release, packages)
        options = (word for change in changes for word in ("--change", change))
        with tar.open("rb") as file:
            subprocess.run([CLIENT, "import", *options, "-", name], env=self.environ, stdin=file,
                           stdout=subprocess.DEVNULL, check=True, timeout=120)  # fmt: skip
        return name


def _make(tar: Path, release: str, packages: str) -> None:
    """Debian with these packages; with pip's settings and the certificates of this host it reaches the same index."""
    from tests.rigs.machine import mirror

    tar.parent.mkdir(parents=True, exist_ok=True)
    hooks = [
        'rm -f "$1"/usr/lib/python3*/EXTERNALLY-MANAGED',
        "copy-in /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/",
    ]
    if Path("/etc/pip.conf").exists():
        hooks.append("copy-in /etc/pip.conf /etc/")
    new = tar.with_suffix(".new.tar")
    command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={packages}"]
    subprocess.run([*command, *(f"--customize-hook={hook}" for hook in hooks), release, str(new), mirror()],
                   check=True, timeout=600)  # fmt: skip
    new.rename(tar)
