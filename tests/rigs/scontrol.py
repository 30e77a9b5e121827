"""A stand-in for Slurm's scontrol over a file: `python -m tests.rigs.scontrol FILE WORDS`.

The file is {"host-000": {"state": "IDLE", "reason": ""}}. It prints and refuses what Slurm 22.05 was seen to print and
refuse. A file of the same name with ".down" at its end makes it fail as without a controller.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

LINE = (
    "NodeName={name} CoresPerSocket=1  CPUAlloc=0 CPUTot=4 AvailableFeatures=(null) NodeAddr=127.0.0.1 "
    "NodeHostName={name} RealMemory=1 State={state} ThreadsPerCore=1 Partitions=all  BootTime=None AllocTRES="
)


def main(file: Path, words: list[str]) -> int:
    if file.with_name(file.name + ".down").exists():
        print("slurm_load_node error: Unable to contact slurm controller (connect failure)", file=sys.stderr)
        return 1
    nodes = json.loads(file.read_text())
    if words[:2] in (["--oneliner", "show"],):
        names = list(nodes) if words[2] == "nodes" else words[3].split(",")
        for name in names:
            if name not in nodes:
                print(f"Node {name} not found")
                continue
            node = nodes[name]
            reason = f" Reason={node['reason']} [root@2026-11-21T07:34:31]" if node["reason"] else ""
            print(LINE.format(name=name, state=node["state"]) + reason)
        return 0
    change = dict(word.partition("=")[::2] for word in words[1:])
    name, state = change["NodeName"], change["State"]
    if name not in nodes:
        print("slurm_update error: Invalid node name specified", file=sys.stderr)
        return 1
    if state == "DRAIN" and not change.get("Reason"):
        print("You must specify a reason when DOWNING or DRAINING a node. Request denied", file=sys.stderr)
        return 1
    node = nodes[name]
    base = node["state"].removesuffix("+DRAIN")
    nodes[name] = (
        {"state": f"{base}+DRAIN", "reason": change["Reason"]} if state == "DRAIN" else {"state": base, "reason": ""}
    )
    file.write_text(json.dumps(nodes))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
