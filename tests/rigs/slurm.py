"""A real slurmctld without any slurmd: its nodes can be drained and resumed, and nothing runs on them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.rigs.daemons import Daemon, free_port

NODES = "host-[000-399]"

CONF = """\
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/none
CredType=cred/none
SlurmUser=root
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
SelectType=select/linear
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SlurmdTimeout=0
ReturnToService=2
NodeName={nodes} NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""


class Slurmctld:
    """Runs while the `with` lasts. `command` is its scontrol."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.conf = folder, folder / "slurm.conf"
        (folder / "state").mkdir(parents=True)
        self.conf.write_text(CONF.format(port=free_port(), folder=folder, nodes=NODES))
        self.command = ("env", f"SLURM_CONF={self.conf}", "scontrol")

    def __enter__(self) -> Slurmctld:
        command = ["env", f"SLURM_CONF={self.conf}", "slurmctld", "-D", "-f", self.conf]
        self._daemon = Daemon(self.folder / "slurmctld.log", command)
        self._daemon.wait_until("slurmctld", lambda: "UP" in self.run("ping", check=False))
        # A node of which no slurmd was ever heard has a state out of which it cannot be resumed.
        self.run("update", f"NodeName={NODES}", "State=DOWN", "Reason=new")
        self.run("update", f"NodeName={NODES}", "State=RESUME")
        return self

    def __exit__(self, *_: object) -> None:
        self._daemon.process.kill()  # saving its state takes seconds and nobody reads it
        self._daemon.process.wait()

    def run(self, *words: str, check: bool = True) -> str:
        """What scontrol prints."""
        run = subprocess.run([*self.command, *words], capture_output=True, text=True, timeout=120, check=check)
        return run.stdout
