"""The paths of docs/first-alert.md in new machines with systemd: `python -m tests.first_alert dist/deb [PATH...]`.

Needs root and Debian 12, and the packages (`make deb`). Each path runs in a machine of its own (tests/rigs/machine.py):
the commands as they stand in the document, and then what cannot be there, an unplugged cable, by a file of a simulated
/sys. Slurm (slurmctld and two slurmd, munge), Prometheus and Alertmanager are Debian's. The Kubernetes path is not run
here. Each line of the output is one thing that was seen, with the time since the first command of the path.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.host.trees import build_hca_tree
from tests.rigs.machine import ROOT, Machine, missing
from tests.rigs.report import NotSo, seen

PACKAGES = ("iproute2", "munge", "prometheus", "prometheus-alertmanager", "slurm-client", "slurmctld", "slurmd")
PATIENCE = 500.0
"""Seconds for one block of a path, which ends with an alert."""

SLURM = """\
ClusterName=rig
SlurmctldHost=node0(10.0.0.1)
SlurmUser=root
StateSaveLocation=/var/lib/slurm/state
SlurmdSpoolDir=/var/lib/slurm/%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd-%n.pid
SlurmctldLogFile=/var/log/slurmctld.log
SlurmdLogFile=/var/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/linear
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
SchedulerParameters=nohold_on_prolog_fail
NodeName=node0 NodeHostname=node0 NodeAddr=10.0.0.1 Port=17001 CPUs=1 State=UNKNOWN
NodeName=node1 NodeHostname=node0 NodeAddr=10.0.0.1 Port=17002 CPUs=1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""
"""A cluster of two nodes in one machine. Its health check is the one of the document."""


def blocks(heading: str) -> list[str]:
    """The shell blocks below a heading of the document."""
    text = (ROOT / "docs/first-alert.md").read_text()
    below = text.partition(f"## {heading}\n")[2] if heading else text
    return re.findall(r"^```sh\n(.*?)^```", below.partition("\n## ")[0], re.MULTILINE | re.DOTALL)


def play(machine: Machine, block: str) -> str:
    """Run a block as it stands; what it prints."""
    return machine.do(f"export DEBIAN_FRONTEND=noninteractive\nset -e\n{block}", timeout=PATIENCE)


def timed(path: str, began: float, alert: str) -> None:
    print(f"  TIME    {path}: {time.monotonic() - began:.0f} s from the first command to: {alert}", flush=True)


def laptop(machine: Machine) -> None:
    began = time.monotonic()
    said = play(machine, blocks("Laptop")[0])
    seen("the test notification came", "firing" in said)
    timed("laptop", began, next(line for line in said.splitlines() if "FIRING" in line).strip())


def one_node(machine: Machine) -> None:
    began = time.monotonic()
    said = play(machine, blocks("One node")[0])
    seen("the test notification came", "firing" in said)
    timed("one node", began, machine.ask("grep -i agent alerts | head -1"))


def prometheus(machine: Machine) -> None:
    machine.do("systemctl start prometheus prometheus-alertmanager")
    began = time.monotonic()
    said = play(machine, blocks("Existing Prometheus and Alertmanager")[0])
    timed("existing Prometheus and Alertmanager", began, said.splitlines()[-1])
    up = machine.ask("curl -s 'localhost:9090/api/v1/query?query=up\\{job=~\"fabricmon.*\"\\}'")
    seen("Prometheus scrapes both", up.count('"__name__":"up"') == 2, up[:200])


# ------------------------------------------------------------------ Slurm


def cluster(machine: Machine) -> None:
    """slurmctld and the two slurmd, each a service of its own."""
    machine.do("mkdir -p /etc/slurm /var/lib/slurm/state && systemctl stop slurmctld slurmd && systemctl start munge")
    machine.do(f"cat > /etc/slurm/slurm.conf <<'END'\n{SLURM}END")
    machine.do("cd /lib/systemd/system; sed 's|slurmd -D|slurmd -N node1 -D|' slurmd.service > slurmd1.service; "
               "sed -i 's|slurmd -D|slurmd -N node0 -D|' slurmd.service; systemctl daemon-reload")  # fmt: skip
    machine.do("systemctl restart slurmctld && systemctl restart slurmd slurmd1")
    machine.do("for n in $(seq 30); do sinfo -h -o '%D %t' | grep -q '2 idle' && exit; sleep 1; done; "
               "tail -n 8 /var/log/slurm*; exit 1")
    seen("slurmctld and two slurmd", True, machine.ask("sinfo -V; sinfo -h -N").replace("\n", ", "))


def link(machine: Machine, up: bool) -> None:
    """Plug the cable of mlx5_3 in, or unplug it."""
    state, physical = ("4: ACTIVE", "5: LinkUp") if up else ("1: DOWN", "2: Polling")
    machine.do(f"cd /fake/sys/class/infiniband/mlx5_3/ports/1; echo '{state}' > state; echo '{physical}' > phys_state")


def job(machine: Machine) -> str:
    """Submit a job on two nodes; its state after at most a minute."""
    number = machine.do("cd /tmp; sbatch -N2 --parsable --wrap hostname")
    for _ in range(60):
        state = machine.ask(f"scontrol show job {number} | sed -n 's/.*JobState=\\([A-Z]*\\).*/\\1/p'")
        if state not in ("PENDING", "RUNNING", "CONFIGURING", "COMPLETING"):
            return state
        time.sleep(1)
    return machine.ask(f"scontrol show job {number} | grep -E 'JobState|Restarts'")


def before_a_job(machine: Machine) -> None:
    """deploy/slurm/fabricmon-prolog as PrologSlurmctld: what it decides for a job of two nodes.

    As of the clone, with the program in /opt and on no PATH; the packages' has the path of the package in it.
    """
    ping = machine.run("fabricmon ping --mesh node0 node1", timeout=60)
    print(f"  fabricmon ping --mesh: exit {ping.returncode}: {ping.stdout.strip()[:300]}")
    machine.do("mkdir -p /opt/fabricmon/bin && ln -s /usr/lib/fabricmon/bin/fabricmon /opt/fabricmon/bin/ && "
               "rm /usr/bin/fabricmon && install -m 755 /clone-slurm/fabricmon-prolog /usr/local/sbin/")  # fmt: skip
    machine.do("echo PrologSlurmctld=/usr/local/sbin/fabricmon-prolog >> /etc/slurm/slurm.conf; "
               "echo BatchStartTimeout=60 >> /etc/slurm/slurm.conf; "
               "systemctl restart slurmctld && systemctl restart slurmd slurmd1; sleep 5")  # fmt: skip
    state = job(machine)
    log = machine.ask("journalctl --no-pager -o cat -t fabricmon-prolog | tail -3")
    seen("a job starts where the prolog cannot decide", state == "COMPLETED" and "probes lost" in log, log)
    # In place of a mesh with a fault, which needs adapters that probe (tests/probe): a program with that exit code.
    machine.do("printf '#!/bin/sh\necho CRITICAL; exit 2\n' > /usr/local/bin/broken; chmod +x /usr/local/bin/broken; "
               "echo FABRICMON=/usr/local/bin/broken >> /etc/default/fabricmon-slurm")
    state = job(machine)
    seen("a critical finding requeues the job", state != "COMPLETED", state.replace("\n", " "))


def slurm(machine: Machine) -> None:
    machine.do("mkdir -p /fake && cp -a /rigs/sys /fake/")
    cluster(machine)
    machine.do("echo 'FABRICMON_AGENT_ARGS=--config /etc/fabricmon/agent.yaml "
               "--path.sysfs /fake/sys' > /etc/default/fabricmon-agent")  # fmt: skip
    link(machine, up=True)
    first, second = blocks("Slurm cluster")
    began = time.monotonic()
    play(machine, first)
    machine.do("systemctl restart slurmd1; sleep 5; sinfo")
    seen("a job runs on both nodes, with the health check in place", job(machine) == "COMPLETED")
    link(machine, up=False)
    play(machine, second)
    timed("Slurm cluster", began, machine.ask("grep 'Link down' alerts"))
    timed("Slurm cluster", began, machine.ask("scontrol show node node0 | grep Reason").strip())
    link(machine, up=True)
    machine.do("until fabricmon check | grep -v CRIT >/dev/null; do sleep 1; done; sleep 15")
    machine.do("scontrol update NodeName=node0,node1 State=RESUME; sleep 3")
    before_a_job(machine)


PATHS: dict[str, Callable[[Machine], None]] = {
    "laptop": laptop, "one-node": one_node, "slurm": slurm, "prometheus": prometheus,
}  # fmt: skip


def run(name: str, packages: Path) -> None:
    """One path in a machine of its own."""
    with tempfile.TemporaryDirectory() as folder:
        build_hca_tree(Path(folder) / "sys")
        binds = {packages: "/debs", Path(folder): "/rigs", ROOT / "deploy/slurm": "/clone-slurm"}
        with Machine(binds, packages=PACKAGES) as machine:
            machine.do("systemctl stop prometheus prometheus-node-exporter prometheus-alertmanager; "
                       "cp /debs/*.deb . ; echo 127.0.0.1 localhost node0 > /etc/hosts; "
                       "echo 'APT::Sandbox::User root;' > /etc/apt/apt.conf.d/rig || true")  # fmt: skip
            # Slurm and Alertmanager refuse a machine that has no address but loopback.
            machine.do("ip link add rig0 type veth peer name rig1 && ip addr add 10.0.0.1/24 dev rig0; "
                       "ip link set rig0 up; ip link set rig1 up")
            print(f"{name}: {machine.ask('cat /etc/debian_version')}")
            machine.do(blocks("")[0])
            try:
                PATHS[name](machine)
            except Exception:
                print(machine.ask("tail -n 15 alerts requests demo; journalctl --no-pager -n 15"), file=sys.stderr)
                raise


def main() -> int:
    lacks = missing()
    if lacks or len(sys.argv) < 2:
        print(f"tests.first_alert needs {lacks or 'the directory of the packages'}", file=sys.stderr)
        return 2
    for name in sys.argv[2:] or PATHS:
        try:
            run(name, Path(sys.argv[1]).resolve())
        except (NotSo, RuntimeError) as error:
            print(f"NOT SO  {name}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
