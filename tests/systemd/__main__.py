"""The units under a real systemd, from a fresh clone to uninstalling: `python -m tests.systemd` (root, Debian).

A machine is booted (tests/rigs/machine.py) and the commands of docs/install.md are run in it as they stand there.
Each line of the output is one thing that was seen; the first that is not so ends the run with exit code 1.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.rigs.clone import fresh_clone
from tests.rigs.machine import CACHE, ROOT, Machine, missing
from tests.rigs.report import NotSo, seen

UNITS = ("fabricmon-agent", "fabricmon-central")
PORTS = {"fabricmon-agent": 9790, "fabricmon-central": 9791}
QUICK = "[Service]\nWatchdogSec=4\nRestartSec=1\n"
"""So that a watchdog's bite is seen in seconds; everything else of the units is as installed."""

STOP = 5.0
"""Seconds a stop may take."""


def until(what: str, look: Callable[[], object], patience: float = 60.0) -> object:
    """The first truthy answer."""
    end = time.monotonic() + patience
    while not (found := look()):
        if time.monotonic() > end:
            raise NotSo(f"{what} did not come within {patience:g} s")
        time.sleep(0.1)
    return found


def show(machine: Machine, unit: str, key: str) -> str:
    return machine.ask(f"systemctl show --value -p {key} {unit}")


def journal(machine: Machine, unit: str, *options: str) -> str:
    return machine.ask(f"journalctl --no-pager -o cat -u {unit} {' '.join(options)}")


def naming(lines: str, word: str) -> str:
    """The last of these lines that has the word."""
    return ([line for line in lines.splitlines() if word in line] or [f"no line has {word!r}"])[-1]


def get(machine: Machine, unit: str, path: str) -> str:
    return machine.ask(f"curl -sS --max-time 10 localhost:{PORTS[unit]}{path}")


def blocks(document: str, *headings: str) -> list[str]:
    """The shell blocks under these headings of a document, as they stand there."""
    text = (ROOT / document).read_text()
    found = []
    for heading in headings:
        section = re.split(r"^## ", text.split(f"\n## {heading}\n")[1], maxsplit=1, flags=re.MULTILINE)[0]
        found += re.findall(r"^```(?:sh)?\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    return found


def wheels() -> Path:
    """What the lock names, for a machine without a network; hashes are checked when it is installed there."""
    folder = CACHE / "wheels"
    command = [sys.executable, "-m", "pip", "download", "-qq", "--only-binary=:all:", "--dest", str(folder)]
    subprocess.run([*command, "--require-hashes", "-r", str(ROOT / "requirements.lock")], check=True, timeout=600)
    subprocess.run([*command, "setuptools>=68", "wheel"], check=True, timeout=600)
    return folder


# ------------------------------------------------------------------ what must be so


def installing(machine: Machine) -> None:
    """A newcomer's path: a fresh clone, then what docs/install.md says, word for word."""
    machine.do("printf '[global]\\nno-index = true\\nfind-links = /wheels\\n' > /etc/pip.conf")
    machine.do("git clone --quiet /clone fabricmon")
    for block in blocks("docs/install.md", "Agent", "Central server"):
        print("\n".join(f"    $ {line}" for line in block.splitlines()))
        said = machine.do(f"cd fabricmon && set -e\n{block}", timeout=300)
        print("\n".join(f"      {line}"[:150] for line in said.splitlines()[-12:]))
    for unit in UNITS:
        seen(f"{unit} is active and enabled", machine.ask(f"systemctl is-active {unit}; systemctl is-enabled {unit}")
             == "active\nenabled", show(machine, unit, "StatusText"))  # fmt: skip
    again = machine.do("/opt/fabricmon/bin/fabricmon install-units --agent --central --dry-run")
    changed = [line for line in again.splitlines() if line.startswith("would") or "edited here" in line]
    seen("installing again changes nothing", not changed, changed or "")


def starting(machine: Machine, unit: str) -> None:
    machine.do(f"systemctl stop {unit}")
    machine.do(f"systemctl start --no-block {unit}")
    states = set()
    while (state := show(machine, unit, "ActiveState")) != "active":
        states.add(state)
        if state == "failed":
            raise NotSo(f"{unit} failed: {journal(machine, unit, '-n 5')}")
    ready = get(machine, unit, "/-/ready")
    page = get(machine, unit, "/metrics")
    begun, active = (int(show(machine, unit, f"{key}TimestampMonotonic")) / 1e6
                     for key in ("ExecMainStart", "ActiveEnter"))  # fmt: skip
    seen("it is activating until READY, and answers as soon as it is active", "activating" in states and ready == "ok",
         f"READY {active - begun:.2f} s after its start, {page.count(chr(10))} lines of /metrics")  # fmt: skip


def confined(machine: Machine, unit: str) -> None:
    pid = show(machine, unit, "MainPID")
    status = dict(line.split(":\t", 1) for line in machine.ask(f"cat /proc/{pid}/status").splitlines() if ":\t" in line)
    user = machine.ask(f"id -un {status['Uid'].split()[0]}")
    held = int(status["CapEff"], 16) | int(status["CapBnd"], 16)
    seen("own user, no capability, no new privileges, seccomp",
         (user, held, status["NoNewPrivs"], status["Seccomp"]) == (unit, 0, "1", "2"), user)  # fmt: skip
    exposure = machine.ask(f"systemd-analyze security --no-pager {unit}").splitlines()[-1]
    figure = float(re.findall(r"(\d+\.\d)", exposure)[0])
    seen("systemd-analyze security at or under 2.0", figure <= 2.0, figure)
    said = machine.ask(f"systemd-analyze verify {unit}.service")
    seen("systemd-analyze verify says nothing", not said, said)
    memory = int(status["VmRSS"].split()[0]) / 1024
    seen("resident memory", memory < 200, f"{memory:.0f} MiB")


def reloading(machine: Machine, unit: str) -> None:
    name = unit.removeprefix("fabricmon-")
    path, pid = f"/etc/fabricmon/{name}.yaml", show(machine, unit, "MainPID")
    metric = f"fabricmon_{name}_config_last_reload_success "

    def value() -> str:
        return get(machine, unit, "/metrics").split(f"\n{metric}")[1].split("\n")[0]

    good = {"agent": "collect: {ethernet: {interval: 2s}}", "central": "central: {fabric: '', tick: 2s}"}[name]
    machine.do(f"cp {path} /tmp/before.yaml; echo \"{good}\" > {path}; systemctl reload {unit}")
    until("the reload", lambda: "configuration reloaded" in journal(machine, unit))
    seen("systemctl reload takes a good file over in the same process", show(machine, unit, "MainPID") == pid,
         journal(machine, unit, "-n 1", "-g '\"configuration reloaded\"'"))  # fmt: skip
    until("active again", lambda: show(machine, unit, "ActiveState") == "active")

    machine.do(f"echo 'collect: {{ethernet: {{intervall: 2s}}}}' > {path}")
    failed = machine.run(f"systemctl reload {unit}")
    errors = machine.ask(f"journalctl --no-pager -o cat -u {unit} -p err")
    seen("systemctl reload of a bad file fails, and the journal has the reason as an error",
         failed.returncode != 0 and "intervall" in errors, naming(errors, "intervall"))  # fmt: skip
    seen("the old configuration stays in use", (show(machine, unit, "MainPID"), value()) == (pid, "1"))

    machine.do(f"kill -HUP {pid}")
    until("the status", lambda: "refused" in show(machine, unit, "StatusText"))
    seen("a bad file by SIGHUP alone stands in the status and in the metrics", value() == "0",
         show(machine, unit, "StatusText"))  # fmt: skip
    machine.do(f"cp /tmp/before.yaml {path}; systemctl reload {unit}")
    until("the status without it", lambda: "refused" not in show(machine, unit, "StatusText"))
    seen("a good file after it clears both", (show(machine, unit, "MainPID"), value()) == (pid, "1"))


def surviving(machine: Machine, unit: str) -> None:
    folder = f"/etc/systemd/system/{unit}.service.d"
    machine.do(f"mkdir -p {folder}; printf '{QUICK}' > {folder}/quick.conf; systemctl daemon-reload")
    machine.do(f"systemctl restart {unit}")
    pid = show(machine, unit, "MainPID")
    time.sleep(6)
    seen("a watchdog of 4 s leaves a healthy process alone for 6 s", show(machine, unit, "MainPID") == pid)
    for signal, name in (("STOP", "a process that is stuck (SIGSTOP)"), ("KILL", "kill -9")):
        pid, began = show(machine, unit, "MainPID"), time.monotonic()
        machine.do(f"kill -{signal} {pid}")
        until("a new process", lambda pid=pid: show(machine, unit, "MainPID") not in ("0", pid)
              and show(machine, unit, "ActiveState") == "active")  # fmt: skip
        seen(f"{name} is ended and started anew", get(machine, unit, "/-/ready") == "ok",
             f"active again after {time.monotonic() - began:.1f} s")
    said = journal(machine, unit)
    seen("the journal names the watchdog and where each thread was", "Watchdog timeout" in said
         and "Fatal Python error: Aborted" in said and "most recent call first" in said)  # fmt: skip
    machine.do(f"rm {folder}/quick.conf; systemctl daemon-reload; systemctl restart {unit}")


def stopping(machine: Machine, unit: str) -> None:
    began = time.monotonic()
    machine.do(f"systemctl stop {unit}")
    took = time.monotonic() - began
    result = machine.ask(f"systemctl show -p Result -p ExecMainStatus --value {unit}").split()
    seen(f"a stop is clean and under {STOP:g} s", took < STOP and result == ["success", "0"], f"{took:.2f} s")
    name = unit.removeprefix("fabricmon-")
    path = f"/etc/fabricmon/{name}.yaml"
    machine.do(f"cp {path} /tmp/before.yaml; echo 'nonsense: 1' > {path}")
    failed = machine.run(f"systemctl start {unit}")
    time.sleep(1)
    seen("a start with a bad configuration fails once, with the reason, and is not tried again",
         failed.returncode != 0 and show(machine, unit, "ActiveState") == "failed"
         and show(machine, unit, "NRestarts") == "0",
         naming(machine.ask(f"journalctl --no-pager -o cat -u {unit} -p err"), "nonsense"))  # fmt: skip
    machine.do(f"cp /tmp/before.yaml {path}; systemctl reset-failed {unit}; systemctl start {unit}")


def opening_the_kernel_log(machine: Machine) -> None:
    unit, metric = "fabricmon-agent", "fabricmon_node_kernel_log_readable "
    seen("without the drop-in the kernel log is closed", f"\n{metric}0" in get(machine, unit, "/metrics"))
    for block in blocks("docs/install.md", "The kernel log"):
        print("\n".join(f"    $ {line}" for line in block.splitlines()))
        machine.do(f"cd fabricmon && set -e\n{block}")
    until("the kernel log", lambda: f"\n{metric}1" in get(machine, unit, "/metrics"), 30)
    seen("with it the agent reads it, and is still confined",
         machine.ask(f"systemd-analyze security --no-pager --threshold=20 {unit} >/dev/null && echo under").endswith(
             "under"), machine.ask(f"systemd-analyze security --no-pager {unit}").splitlines()[-1].strip())  # fmt: skip


def asked_by_slurm(machine: Machine) -> None:
    for block in blocks("docs/install.md", "Slurm"):
        print("\n".join(f"    $ {line}" for line in block.splitlines()))
        said = machine.do(f"cd fabricmon && set -e\n{block}")
        seen("a machine without a fabric is unknown and is not drained", "nothing drained" in said, said)


def uninstalling(machine: Machine) -> None:
    said = machine.do("/opt/fabricmon/bin/fabricmon install-units --uninstall")
    left = machine.ask("find /etc -path '*fabricmon*' -type f; systemctl list-units --no-legend 'fabricmon*'")
    ports = machine.run("curl -s localhost:9790 || curl -s localhost:9791").returncode
    seen("uninstall stops both and leaves only what was edited", ports != 0 and "service" not in left,
         ", ".join(left.split()) or "nothing left")  # fmt: skip
    print("\n".join(f"      {line}" for line in said.splitlines()))


def main() -> int:
    lacks = missing()
    if lacks:
        print(f"tests.systemd needs {lacks} (Debian: apt-get install systemd-container mmdebstrap)", file=sys.stderr)
        return 2
    began = time.monotonic()
    with fresh_clone() as clone:
        head = subprocess.run(["git", "-C", str(clone), "log", "-1", "--format=%h"], capture_output=True, text=True)
        options = ["--bind=/dev/kmsg", "--capability=CAP_SYSLOG"]
        with Machine({clone: "/clone", wheels(): "/wheels"}, options) as machine:
            print(machine.ask("systemctl --version | head -1"), f"; commit {head.stdout.strip()}")
            machine.do("git config --global --add safe.directory '*'")
            try:
                print("a fresh clone, by docs/install.md")
                installing(machine)
                for unit in UNITS:
                    for part in (starting, confined, reloading, surviving, stopping):
                        print(f"{unit}: {part.__name__}")
                        part(machine, unit)
                print("the kernel log")
                opening_the_kernel_log(machine)
                print("Slurm's health check")
                asked_by_slurm(machine)
                print("uninstalling")
                uninstalling(machine)
            except (NotSo, RuntimeError) as error:
                print(f"NOT SO  {error}", file=sys.stderr)
                for unit in UNITS:
                    print(f"--- {unit}\n{machine.ask(f'journalctl --no-pager -n 25 -u {unit}')}", file=sys.stderr)
                return 1
    print(f"all seen in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
