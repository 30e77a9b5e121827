"""The Debian packages under a real systemd: `python -m tests.packages dist/deb` (root, Debian 12, after `make deb`).

A machine is booted (tests/rigs/machine.py); in it the packages are installed over an installation of `fabricmon
install-units`, upgraded, removed, installed again and purged. Each line of the output is one thing that was seen; the
first that is not so ends the run with exit code 1. The newer version is the same packages under a higher version with
a changed unit and changed templates of the settings.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.rigs.machine import Machine, missing
from tests.rigs.report import NotSo, seen

NAMES = ("agent", "central")
PORTS = {"agent": 9790, "central": 9791}
NEWER = "0.1.1"
APT = "DEBIAN_FRONTEND=noninteractive apt-get -y -q -o Dpkg::Options::=--force-confold -o APT::Sandbox::User=root"
MINE = "central: {targets: ['localhost:9790'], name: mine}\n"
SILENCES = "fabricmon silence list --json"


def newer(packages: Path, folder: Path) -> None:
    """Repack under a higher version: the unit and the templates of the settings differ."""
    for package in sorted(packages.glob("*.deb")):
        tree = folder / "tree" / package.stem
        tree.parent.mkdir(exist_ok=True)
        subprocess.run(["dpkg-deb", "--raw-extract", package, tree], check=True, timeout=120)
        control = tree / "DEBIAN/control"
        version = next(line for line in control.read_text().splitlines() if line.startswith("Version: ")).split()[1]
        control.write_text(control.read_text().replace(version, NEWER))
        for file in [*tree.glob("lib/systemd/system/*.service"), *tree.glob("etc/fabricmon/*.yaml")]:
            file.write_text(file.read_text() + "# newer\n")
        target = folder / f"{package.name.split('_')[0]}.deb"
        subprocess.run(["dpkg-deb", "-Znone", "--build", tree, target], check=True, timeout=120, capture_output=True)


def active(machine: Machine) -> list[str]:
    """The daemons that answer on their port, once both had 30 s to start."""
    end = time.monotonic() + 30
    while True:
        found = [name for name in NAMES
                 if machine.ask(f"curl -s -m 5 localhost:{PORTS[name]}/-/ready") == "ok"]  # fmt: skip
        if len(found) == len(NAMES) or time.monotonic() > end:
            return found
        time.sleep(0.5)


def pids(machine: Machine) -> list[str]:
    return [machine.ask(f"systemctl show --value -p MainPID fabricmon-{name}") for name in NAMES]


def left(machine: Machine) -> list[str]:
    """Files, users and units with the name of fabricmon."""
    files = machine.ask("find / -xdev -name '*fabricmon*' ! -path '/debs*' ! -path '/newer*'")
    users = machine.ask("grep -h fabricmon /etc/passwd /etc/group /etc/shadow")
    units = machine.ask("systemctl list-units --all --no-legend 'fabricmon*'")
    return [*files.split(), *users.split(), *units.split()]


def over_installed_units(machine: Machine) -> None:
    """An installation by hand (docs/install.md, "Agent" and "Central server") with settings and state of its own."""
    machine.do(f"{APT} install /debs/fabricmon_*.deb", timeout=300)
    machine.do("cp -a /usr/lib/fabricmon /opt/ && sed -i 's|/usr/lib/|/opt/|' /opt/fabricmon/bin/fabricmon")
    machine.do("/opt/fabricmon/bin/fabricmon install-units --agent --central --prefix /opt/fabricmon")
    machine.do(f'echo "{MINE.strip()}" > /etc/fabricmon/central.yaml')
    machine.do("systemctl enable --now fabricmon-agent fabricmon-central")
    seen("units of install-units run", active(machine) == [*NAMES])
    machine.do("fabricmon silence add kind=link_errors --for 2h --comment kept --anyway")
    before = pids(machine)
    machine.do(f"{APT} install /debs/fabricmon-*.deb", timeout=300)
    seen("installed over it: both run anew from the packages' units",
         active(machine) == [*NAMES] and not set(before) & set(pids(machine)),
         machine.ask("systemctl show --value -p FragmentPath fabricmon-agent fabricmon-central").replace("\n", " "))
    seen("enabled", machine.ask("systemctl is-enabled fabricmon-agent fabricmon-central").split() == ["enabled"] * 2)
    kept(machine)


def kept(machine: Machine) -> None:
    seen("settings and state are kept", machine.do("cat /etc/fabricmon/central.yaml") == MINE.strip()
         and "kept" in machine.do(SILENCES), machine.ask("ls /etc/fabricmon").replace("\n", " "))  # fmt: skip


def upgraded(machine: Machine) -> None:
    before = pids(machine)
    machine.do(f"{APT} install /newer/fabricmon*.deb", timeout=300)
    seen("upgraded: both run anew", active(machine) == [*NAMES] and not set(before) & set(pids(machine)),
         machine.ask("dpkg-query -W 'fabricmon*'").replace("\t", " ").replace("\n", ", "))  # fmt: skip
    newer_lines = machine.ask("grep -l '# newer' /etc/fabricmon/*.yaml /lib/systemd/system/fabricmon-*.service").split()
    seen("new units and the template that nobody edited are taken over", newer_lines == [
        "/etc/fabricmon/agent.yaml", *(f"/lib/systemd/system/fabricmon-{name}.service" for name in NAMES)])  # fmt: skip
    kept(machine)


def removed(machine: Machine) -> None:
    machine.do(f"{APT} remove fabricmon-agent fabricmon-central fabricmon")
    seen("removed: neither runs, settings and state stay",
         machine.run("curl -s localhost:9790 || curl -s localhost:9791").returncode != 0
         and machine.do("cat /etc/fabricmon/central.yaml; ls /var/lib/fabricmon").startswith(MINE.strip()),
         machine.ask("ls /var/lib/fabricmon").replace("\n", " "))  # fmt: skip
    machine.do(f"{APT} install /newer/fabricmon*.deb", timeout=300)
    seen("installed again: both run", active(machine) == [*NAMES])
    kept(machine)


def purged(machine: Machine) -> None:
    machine.do("rm -rf /opt/fabricmon")
    machine.do(f"{APT} purge fabricmon-agent fabricmon-central fabricmon")
    seen("purged: no file, user or unit is left", not left(machine), left(machine) or "")


def fresh(machine: Machine) -> None:
    machine.do(f"{APT} install /debs/fabricmon*.deb", timeout=300)
    seen("installed on an empty machine: both run", active(machine) == [*NAMES], machine.ask("fabricmon --version"))
    shown = machine.ask("ls /usr/share/man/man1/fabricmon.1.gz; "
                        ". /usr/share/bash-completion/completions/fabricmon; complete -p fabricmon")  # fmt: skip
    seen("manual and completion", "man1" in shown and "-F _fabricmon" in shown, shown.replace("\n", ", "))
    machine.do("fabricmon install-units --agent --kernel-log && systemctl restart fabricmon-agent")
    end, metric = time.monotonic() + 30, "\nfabricmon_node_kernel_log_readable 1"
    while metric not in (page := machine.ask("curl -s localhost:9790/metrics")) and time.monotonic() < end:
        time.sleep(0.5)
    paths = machine.ask("systemctl show --value -p FragmentPath -p DropInPaths fabricmon-agent").split()
    seen("a drop-in of install-units goes with the packaged unit", metric in page
         and paths[0].startswith("/lib/systemd/system/"), " ".join(paths))  # fmt: skip
    purged(machine)


def main() -> int:
    lacks = missing()
    if lacks or len(sys.argv) != 2:
        print(f"tests.packages needs {lacks or 'the directory of the packages'}", file=sys.stderr)
        return 2
    packages, began = Path(sys.argv[1]).resolve(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        newer(packages, Path(folder))
        options = ["--bind=/dev/kmsg", "--capability=CAP_SYSLOG"]
        with Machine({packages: "/debs", Path(folder): "/newer"}, options) as machine:
            print(machine.ask("systemctl --version | head -1"), machine.ask("cat /etc/debian_version"), sep="; Debian ")
            try:
                for part in (over_installed_units, upgraded, removed, purged, fresh):
                    print(part.__name__.replace("_", " "))
                    part(machine)
            except (NotSo, RuntimeError) as error:
                print(f"NOT SO  {error}", file=sys.stderr)
                print(machine.ask("journalctl --no-pager -n 40 -u 'fabricmon*'"), file=sys.stderr)
                return 1
    print(f"all seen in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
