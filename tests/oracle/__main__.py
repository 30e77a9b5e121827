"""fabricmon against NVIDIA's nvml-mock and mock-ib: `make oracle MOCK=PATH`, a checkout of NVIDIA/k8s-test-infra.

The checkout is one that its owner built by its own READMEs: libnvidia-ml.so.1 in pkg/gpu/mocknvml, and mock-ib at its
root, without which no ports are compared. Nothing of it is built, changed or copied here.
Each case is a profile of the mock, as shipped or with a change; what fabricmon reads through the library or from the
files is compared with what the profile says (profiles.py, which shares nothing with the collectors). A row is printed
for each; every difference is named, and the exit code is 1 if one is not among those that are explained.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.oracle.profiles import NOT_SO, PROFILES, devices, gpu_rows, port_rows

LIBRARY = "pkg/gpu/mocknvml"
SHIPPED = "deployments/nvml-mock/helm/nvml-mock/profiles"
LIMIT = 60.0
RATE = 5.0  # errors a second of a link that is told to count some

Rows = dict[str, dict[str, Any]]
Change = Callable[[dict[str, Any]], None]


class Case(NamedTuple):
    name: str
    profile: str
    change: Change
    special: Callable[[Rows, Rows], None] | None = None  # changes what is expected, and takes out what cannot be


class Compared(NamedTuple):
    equal: int
    explained: Counter[str]  # column -> how many cells
    different: list[str]
    only_read: int  # cells that the profile says nothing about


def compare(expected: Rows, told: Rows) -> Compared:
    equal, explained, only_read = 0, Counter[str](), 0
    different = [f"{row}: {'not read' if row in expected else 'read, and not in the profile'}"
                 for row in sorted(expected.keys() ^ told.keys())]  # fmt: skip
    for row in sorted(expected.keys() & told.keys()):
        has, wanted = told[row], expected[row]
        only_read += len(has.keys() - wanted.keys())
        for column, value in wanted.items():
            if column == "guids begin with":
                same = all(has.get(guid, "").startswith(value) for guid in ("node_guid", "port_guid"))
            else:
                same = has.get(column) == value
            if same:
                equal += 1
            elif column in NOT_SO:
                explained[column] += 1
            else:
                different.append(f"{row} {column}: read {has.get(column)!r}, the profile says {value!r}")
    return Compared(equal, explained, different, only_read)


# --- cases


def _defaults(**blocks: dict[str, Any]) -> Change:
    def change(profile: dict[str, Any]) -> None:
        for name, block in blocks.items():
            profile["device_defaults"][name] = {**profile["device_defaults"].get(name, {}), **block}

    return change


def _device(number: int, **blocks: dict[str, Any]) -> Change:
    def change(profile: dict[str, Any]) -> None:
        profile["devices"][number] |= blocks

    return change


def _inactive(gpu: int, *links: int) -> Change:
    def change(profile: dict[str, Any]) -> None:
        own = [{"link": n, "state": "inactive" if n in links else "active", "remote_device_type": "switch",
                "remote_pci_bus_id": profile["nvlink"]["switches"][0]["bdf"]} for n in range(18)]  # fmt: skip
        profile["nvlink"]["device_links"] = [{"index": gpu, "links": own}]

    return change


def _as_shipped(_: dict[str, Any]) -> None:
    pass


def _lost(gpu: int) -> Callable[[Rows, Rows], None]:
    def special(expected: Rows, told: Rows) -> None:
        for row in [row for row in expected if row.startswith(f"gpu{gpu}")]:
            del expected[row]
        row = told.pop(f"gpu{gpu}", {})
        expected["the lost GPU"], told["the lost GPU"] = {"NVML 15": True}, {"NVML 15": "NVML 15" in str(row)}

    return special


def _counts(gpu: int, link: int) -> Callable[[Rows, Rows], None]:
    """Every error counter of one link counts; the sums are those of that link."""

    def special(expected: Rows, told: Rows) -> None:
        row = f"gpu{gpu}/link{link}"
        counts = {c: v for c, v in expected[row].items() if v == 0.0 and not c.endswith(("_ber", "_state"))}
        for column in counts:
            del expected[row][column]
        expected["the link with errors"] = {"all count": True, "worst": link, "others": 0}
        told["the link with errors"] = {
            "all count": all(told[row].get(column, 0) > RATE for column in counts),
            "worst": told[f"gpu{gpu}"].get("gpu_nvlink_worst"),
            "others": sum("gpu_nvlink_worst" in cells for name, cells in told.items() if name != f"gpu{gpu}"),
        }

    return special


def gpu_cases() -> Iterator[Case]:
    for profile in PROFILES:
        yield Case("as shipped", profile, _as_shipped)
    for name in ("degraded_bandwidth", "route_recovery", "route_unhealthy", "access_timeout_recovery"):
        yield Case(f"fabric: {name}", "gb200", _defaults(fabric={"health": {name: True}}))
    for name in ("incorrect_sysguid", "incorrect_chassis_sn", "no_partition", "insufficient_nvlinks",
                 "incompatible_gpu_fw", "invalid_location", "gpu_state_invalid", "not_supported"):  # fmt: skip
        yield Case(f"fabric: {name}", "gb300", _defaults(fabric={"health": {"incorrect_configuration": name}}))
    for name in ("unhealthy", "limited_capacity", "not_supported"):
        yield Case(f"summary: {name}", "gb200", _defaults(fabric={"health_summary": name}))
    for name in ("in_progress", "not_started", "not_supported"):
        yield Case(f"registration: {name}", "h100", _defaults(fabric={"state": name}))
    yield Case("PCIe x8, generation 3, replays", "b200",
               _defaults(pcie={"current_link_width": 8, "current_link_gen": 3, "replay_counter": 17}))  # fmt: skip
    yield Case("two links inactive", "gb200", _inactive(2, 5, 16))
    yield Case("a GPU is lost", "h100", _device(3, failure={"mode": "lost"}), _lost(3))
    yield Case("a link counts errors", "gb200", _device(2, nvlink_error={"rate": RATE, "links": [3]}), _counts(2, 3))


def port_cases() -> Iterator[Case]:
    def ib(**values: Any) -> Change:
        return lambda profile: profile["infiniband"].update(values)

    for profile in PROFILES:
        yield Case("ports as shipped", profile, _as_shipped)
    for state, phys in (("DOWN", "Polling"), ("DOWN", "Disabled"), ("INIT", "LinkUp"), ("ARMED", "LinkUp")):
        yield Case(f"ports {state}, {phys}", "h100", ib(port_state=state, phys_state=phys))
    for rate in (100, 200, 800):
        yield Case(f"ports {rate} Gb/s", "h100", ib(rate_gbps=rate))
    yield Case("ports Ethernet", "h100", ib(link_layer="Ethernet"))


# --- running them


def asked(arguments: list[str], environ: dict[str, str]) -> Any:
    done = subprocess.run([sys.executable, "-m", "tests.oracle.told", *arguments], env=os.environ | environ,
                          capture_output=True, text=True, timeout=LIMIT, check=False)  # fmt: skip
    if done.returncode:
        raise SystemExit(f"python -m tests.oracle.told {' '.join(arguments)}: {done.stderr}")
    return json.loads(done.stdout)


class Mock(NamedTuple):
    checkout: Path
    folder: Path

    def profile(self, case: Case) -> tuple[dict[str, Any], Path]:
        """The profile of a case, and the file of it."""
        shipped = yaml.safe_load((self.checkout / SHIPPED / f"{case.profile}.yaml").read_text())
        profile = copy.deepcopy(shipped)
        case.change(profile)
        path = Path(tempfile.mkdtemp(dir=self.folder)) / "config.yaml"
        path.write_text(yaml.safe_dump(profile))
        return profile, path

    def environ(self, path: Path) -> dict[str, str]:
        return {"LD_LIBRARY_PATH": str(self.checkout / LIBRARY), "MOCK_NVML_CONFIG": str(path)}

    def gpus(self, case: Case) -> Compared:
        profile, path = self.profile(case)
        told, expected = (
            asked(["nvml", *(["after-temperature"] if case.special else [])], self.environ(path)),
            gpu_rows(profile),
        )
        if case.special is not None:
            case.special(expected, told)
        return compare(expected, told)

    def ports(self, case: Case) -> Compared:
        profile, path = self.profile(case)
        tree, gpus = path.parent / "ib", len(devices(profile))
        subprocess.run([self.checkout / "mock-ib", "-config", path, "-gpu-count", str(gpus), "-node-name", "n1",
                        "-ib-root", tree, "-render-only"], check=True, timeout=LIMIT, capture_output=True)  # fmt: skip
        told = asked(["tree", str(tree / "sys")], {})
        expected = port_rows(profile, gpus, "n1")
        if case.name == "ports Ethernet":  # what a RoCE port has in the files of the adapter's InfiniBand counters
            expected = {
                row: {c: v for c, v in cells.items() if c in told.get(row, {})} for row, cells in expected.items()
            }
        return compare(expected, told)

    def event(self) -> Compared:
        case = Case("an Xid error", "h100", _device(1, failure={"mode": "ecc_uncorrectable", "xid": {"code": 48}}))
        _, path = self.profile(case)
        (told,) = asked(["events", "1", "after-temperature"], self.environ(path))
        return compare({"event": {"row": "gpu1", "kind": "xid", "xid": 48.0}}, {"event": told})


def main() -> int:
    if len(sys.argv) != 2 or not (checkout := Path(sys.argv[1]).resolve()).is_dir():
        print("use: make oracle MOCK=a checkout of NVIDIA/k8s-test-infra", file=sys.stderr)
        return 2
    if not (checkout / LIBRARY / "libnvidia-ml.so.1").exists():
        print(f"{checkout}: {LIBRARY}/libnvidia-ml.so.1 is not built (its README says how)", file=sys.stderr)
        return 2
    explained: Counter[str] = Counter()
    failed = False
    print(f"{'profile':8}{'case':34}{'equal':>7}{'explained':>11}{'different':>11}{'only read':>11}")
    with tempfile.TemporaryDirectory() as folder:
        mock = Mock(checkout, Path(folder))
        asking: list[tuple[Case, Callable[[], Compared]]] = [(case, partial(mock.gpus, case)) for case in gpu_cases()]
        asking.append((Case("an Xid error", "h100", _as_shipped), mock.event))
        if (checkout / "mock-ib").exists():
            asking += [(case, partial(mock.ports, case)) for case in port_cases()]
        for case, ask in asking:
            found = ask()
            explained += found.explained
            failed |= bool(found.different)
            print(f"{case.profile:8}{case.name:34}{found.equal:7}{found.explained.total():11}"
                  f"{len(found.different):11}{found.only_read:11}", flush=True)  # fmt: skip
            for line in found.different[:8]:
                print(f"    {line}")
    if not (checkout / "mock-ib").exists():
        print("mock-ib is not built: no InfiniBand ports were compared")
    for column, count in sorted(explained.items()):
        print(f"explained, {count} cells of {column}: {NOT_SO[column]}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
