"""What a node should have beside what it has, the roles of its ports, and where each is known from."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.catalogue.machines import Certainty, machine
from fabricmon.collect import COLLECTORS
from fabricmon.collect.inventory import ExpectedHardware
from fabricmon.collect.machine import storage
from fabricmon.collect.parse import manifest
from fabricmon.host.live import LiveHost
from fabricmon.host.protocol import HostError
from fabricmon.model import Kind, Reading
from fabricmon.units import Rate
from tests.collect.nodes import add_adapter, add_gpu, build_dgx, build_efa, cells, host, labels, name_machine
from tests.host.trees import build_hca_tree, build_netdev, link, put

infiniband_state = COLLECTORS["infiniband_state"]
inventory = COLLECTORS["inventory"]

NODE = (Kind.NODE, "")


def look(root: Path, **config: Any) -> Reading:
    (session,) = inventory.open(host(root), inventory.config(**config)).sessions().values()
    return session.read()


def node(root: Path, **config: Any) -> dict[str, float]:
    """The node's row without the prefix of its columns."""
    return {name.removeprefix("node_"): value for name, value in cells([look(root, **config)])[NODE].items()}


def roles(root: Path) -> dict[str, str]:
    """As the other collectors say."""
    sessions = infiniband_state.open(host(root), infiniband_state.config()).sessions().values()
    return {name: of["role"] for s in sessions for name, of in labels(s.read(), Kind.PORT).items()}


# --- types of machines


@pytest.mark.parametrize(("vendor", "product", "gpus", "name", "expected"), [
    ("NVIDIA", "DGXH100", [], "DGX H100", (8, 8, Certainty.BUILT)),
    ("NVIDIA", "DGX H200", [], "DGX H200", (8, 8, Certainty.BUILT)),
    ("NVIDIA", "DGXB200", [], "DGX B200", (8, 8, Certainty.BUILT)),
    ("NVIDIA", "DGXA100 920-23687-2530-000", [], "DGX A100", (8, 8, Certainty.BUILT)),
    ("Any", "GB200 NVL", ["0x2941"] * 4, "GB200 tray", (4, 4, Certainty.USUAL)),
    ("Amazon EC2", "p4d.24xlarge", [], "p4d.24xlarge", (8, 4, Certainty.USUAL)),
    ("Amazon EC2", "p5.48xlarge", [], "p5.48xlarge", (8, 32, Certainty.USUAL)),
    ("Amazon EC2", "p5e.48xlarge", [], "p5e.48xlarge", (8, 32, Certainty.USUAL)),
    ("Amazon EC2", "p5en.48xlarge", [], "p5en.48xlarge", (8, 16, Certainty.USUAL)),
    ("Amazon EC2", "p6-b200.48xlarge", [], "p6-b200.48xlarge", (8, 8, Certainty.USUAL)),
    ("Amazon EC2", "p6-b300.48xlarge", [], "p6-b300.48xlarge", (8, 17, Certainty.USUAL)),
    ("Dell Inc.", "PowerEdge XE9680", ["0x2330"] * 8, "HGX H100", (8, 8, Certainty.USUAL)),
    ("Dell Inc.", "PowerEdge XE9680", ["0x2330"] * 7, "HGX H100", (8, 8, Certainty.USUAL)),
    ("Dell Inc.", "PowerEdge XE9640", ["0x2330"] * 4, "HGX H100", (4, None, Certainty.USUAL)),
    ("Supermicro", "SYS", ["0x2335"] * 8, "HGX H200", (8, 8, Certainty.USUAL)),
])  # fmt: skip
def test_known_machines(vendor: str, product: str, gpus: list[str], name: str, expected: tuple[Any, ...]) -> None:
    found = machine(vendor, product, gpus)
    assert found is not None
    assert (found.name, (found.gpus, found.hcas, found.certainty)) == (name, expected)


@pytest.mark.parametrize(("vendor", "product", "gpus"), [
    ("Dell Inc.", "PowerEdge R760", []), ("Dell Inc.", "PowerEdge R760", ["0x1eb8"]), ("", "", []),
    ("Somebody", "p5.48xlarge", []), ("Amazon EC2", "m7i.large", []),
])  # fmt: skip
def test_of_other_machines_nothing_is_known(vendor: str, product: str, gpus: list[str]) -> None:
    assert machine(vendor, product, gpus) is None


def test_a_virtual_machine_may_have_some_gpus_of_a_board(tmp_path: Path) -> None:
    """One that has the NVSwitches too has the whole board."""
    put(tmp_path / "proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme hypervisor lahf_lm\nbugs\t\t:\n\n")
    gpu = tmp_path / "devices/pci0000:00/0000:00:06.0"
    add_gpu(tmp_path, gpu)
    assert (node(tmp_path)["gpus_found"], labels(look(tmp_path), Kind.NODE)[""]["machine"]) == (1, "HGX H100")
    assert math.isnan(node(tmp_path)["gpus_expected"])
    switch = tmp_path / "devices/pci0000:00/0000:00:07.0"
    put(switch / "class", "0x068000\n")
    put(switch / "vendor", "0x10de\n")
    link(tmp_path / "bus/pci/devices/0000:00:07.0", switch)
    assert node(tmp_path)["gpus_expected"] == 4


# --- what is counted


def test_a_whole_machine(tmp_path: Path) -> None:
    build_dgx(tmp_path)
    open_to_programs(tmp_path, 8)
    found = node(tmp_path)
    assert found.pop("machine") > 0
    assert found == {
        "hcas_expected": 8, "hcas_found": 8, "hcas_lost": 0, "hcas_certainty": Certainty.BUILT,
        "gpus_expected": 8, "gpus_found": 8, "gpus_lost": 0,
        "uverbs_missing": 0, "umad_missing": 0, "netdevs_misplaced": 0,
    }  # fmt: skip
    (of_node,) = labels(look(tmp_path), Kind.NODE).values()
    assert of_node["machine"] == "DGX H100"
    assert of_node["hcas"].split(", ") == [f"0000:{0x11 + 8 * n:02x}:00.0" for n in range(8)]
    assert "missing" not in of_node


def test_an_adapter_that_was_never_there(tmp_path: Path) -> None:
    """Storage adapters beside no GPU do not make up for it."""
    build_dgx(tmp_path, adapters=7)
    add_adapter(tmp_path, "mlx5_8", 0x70, 0)
    add_adapter(tmp_path, "mlx5_9", 0x78, 1)
    assert (node(tmp_path)["hcas_expected"], node(tmp_path)["hcas_found"]) == (8, 7)


def test_an_adapter_that_goes_while_the_agent_looks_on_is_lost_not_missing(tmp_path: Path) -> None:
    build_dgx(tmp_path)
    (session,) = inventory.open(host(tmp_path), inventory.config()).sessions().values()
    session.read()
    (tmp_path / "class/infiniband/mlx5_5").unlink()
    (tmp_path / "bus/pci/drivers/nvidia/0000:22:00.0").unlink()
    reading = session.read()
    row = cells([reading])[NODE]
    assert (row["node_hcas_found"], row["node_hcas_lost"]) == (7, 1)
    assert (row["node_gpus_found"], row["node_gpus_lost"]) == (7, 1)
    assert labels(reading, Kind.NODE)[""]["missing"] == "mlx5_5, 0000:22:00.0"


@pytest.mark.parametrize(("directory", "unknown"), [
    ("/sys/bus/pci/drivers/nvidia", {"gpus_found", "gpus_lost", "hcas_found", "hcas_lost"}),
    ("/sys/class/infiniband", {"hcas_found", "hcas_lost"}),
])  # fmt: skip
@pytest.mark.parametrize("seen", [True, False])
def test_what_cannot_be_listed_is_unknown_and_neither_none_nor_lost(
    tmp_path: Path, directory: str, unknown: set[str], seen: bool
) -> None:
    class Refusing(LiveHost):
        refuses = not seen

        def list(self, path: str) -> list[str]:
            if self.refuses and path == directory:
                raise HostError(path, errno.EMFILE, "Too many open files")
            return super().list(path)

    build_dgx(tmp_path)
    machine = Refusing(str(tmp_path), str(tmp_path / "proc"))
    (session,) = inventory.open(machine, inventory.config()).sessions().values()
    if seen:
        before = session.read()
        machine.refuses = True
    reading = session.read()
    if seen:
        assert reading.parts == before.parts, "rows, roles and names stay"
    row = {name.removeprefix("node_"): value for name, value in cells([reading])[NODE].items()}
    counts = [*(f"hcas_{word}" for word in ("found", "lost")), *(f"gpus_{word}" for word in ("found", "lost"))]
    assert {name for name in counts if math.isnan(row[name])} == unknown
    assert [(fault.source, fault.error) for fault in reading.faults] == [(directory, "Too many open files")]
    machine.refuses = False
    row = {name.removeprefix("node_"): value for name, value in cells([session.read()])[NODE].items()}
    assert [row[name] for name in counts] == [8, 0, 8, 0]


def test_a_device_that_was_removed_on_purpose_is_listed_and_not_lost(tmp_path: Path) -> None:
    build_dgx(tmp_path)
    config = inventory.config(removed=("mlx5_5", "0000:22:00.0"))
    (session,) = inventory.open(host(tmp_path), config).sessions().values()
    session.read()
    (tmp_path / "class/infiniband/mlx5_5").unlink()
    (tmp_path / "bus/pci/drivers/nvidia/0000:22:00.0").unlink()
    reading = session.read()
    row, own = cells([reading])[NODE], labels(reading, Kind.NODE)[""]
    assert (row["node_hcas_found"], row["node_hcas_lost"], row["node_gpus_lost"]) == (7, 0, 0)
    assert (own["removed"], "missing" in own) == ("mlx5_5, 0000:22:00.0", False)


@pytest.mark.parametrize("names", [("mlx5_1,mlx5_2",), (" ",), ("x" * 64,) * 17])
def test_removed_devices_are_a_list_of_names(names: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="removed"):
        inventory.config(removed=names)


def test_nothing_is_read_again_while_the_names_stay(tmp_path: Path) -> None:
    build_dgx(tmp_path)
    open_to_programs(tmp_path, 8)
    (session,) = inventory.open(host(tmp_path), inventory.config()).sessions().values()
    first = session.read()
    shutil.rmtree(tmp_path / "class/dmi")
    again = session.read()
    assert again.parts is first.parts
    assert again.values == first.values


def test_a_machine_that_nobody_knows(tmp_path: Path) -> None:
    build_hca_tree(tmp_path, devices=2)
    found = node(tmp_path)
    assert (found["hcas_found"], found["hcas_certainty"], found["gpus_found"]) == (2, 0, 0)
    for name in ("hcas_expected", "gpus_expected", "machine"):
        assert math.isnan(found[name])


def test_an_empty_machine(tmp_path: Path) -> None:
    assert node(tmp_path)["hcas_found"] == 0


def test_configuration_outranks_the_type_and_counts_by_rate(tmp_path: Path) -> None:
    build_dgx(tmp_path)
    add_adapter(tmp_path, "mlx5_8", 0x70, 0, rate="100 Gb/sec (4X EDR)")
    add_adapter(tmp_path, "mlx5_9", 0x78, 0, rate="100 Gb/sec (4X EDR)", state="1: DOWN")
    expect = ExpectedHardware(hcas=10, gpus=4, rate=Rate(400e9 / 8))
    reading = look(tmp_path, expect=expect)
    found = cells([reading])[NODE]
    assert (found["node_hcas_expected"], found["node_hcas_found"], found["node_hcas_certainty"]) == (10, 9, 3)
    assert (found["node_gpus_expected"], found["node_gpus_found"]) == (4, 8)
    assert reading.queries == 10 * 2 * 5  # state and rate of each InfiniBand port
    assert node(tmp_path, expect=ExpectedHardware(hcas=10))["hcas_found"] == 9  # the rate of the type


def test_machines_of_one_build_have_one_number(tmp_path: Path) -> None:
    numbers = []
    for name, product in (("a", "DGXH100"), ("b", "DGXH100"), ("c", "DGXB200")):
        build_dgx(tmp_path / name, adapters=1, gpus=0, product=product)
        numbers.append(node(tmp_path / name)["machine"])
    assert numbers[0] == numbers[1] != numbers[2]
    assert all(number == int(number) < 2**53 for number in numbers)


@pytest.mark.parametrize("config", [
    {"expect": {"hcas": -1}}, {"expect": {"hcas": "8"}}, {"expect": {"nics": 8}}, {"roles": {"compote": ["mlx5_0"]}},
])  # fmt: skip
def test_a_wrong_configuration_is_refused(config: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(config, inventory.config)


def test_a_missing_gpu_is_not_a_missing_adapter(tmp_path: Path) -> None:
    build_dgx(tmp_path, gpus=7)
    found = node(tmp_path)
    assert (found["hcas_found"], found["gpus_expected"], found["gpus_found"]) == (8, 8, 7)


# --- EFA


def test_a_p5_has_32_efa_devices(tmp_path: Path) -> None:
    build_efa(tmp_path, {f"rdmap{n}s0": n for n in range(31)})
    found = node(tmp_path)
    assert (found["hcas_expected"], found["hcas_found"], found["hcas_certainty"]) == (32, 31, Certainty.USUAL)
    assert set(roles(tmp_path).values()) == {"compute"}


# --- manifests


MANIFEST: dict[str, Any] = {
    "pci": {
        "0000:11:00.0": {"type": "ib", "dev": "/sys/class/net/ib0", "slot": "PCIE_0", "link_width": "16"},
        "0000:19:00.0": {"type": "ib", "dev": "/sys/class/net/ib1", "slot": "PCIE_1"},
        "0000:12:00.0": {"type": "gpu", "dev": "/dev/nvidia0", "slot": "GPU_0"},
        "0000:c4:00.0": {"type": "pci", "dev": "nvswitch_c4"},
        "0000:09:00.0": {"type": "nvme", "dev": "/dev/nvme1"},
    },
    "ib": {"link_rate": "400 Gb/sec (4X NDR)"},
    "disks": {"U.2_0": {}},
}


def test_a_manifest_names_what_is_missing(tmp_path: Path) -> None:
    build_hca_tree(tmp_path, devices=1)
    put(tmp_path / "node.json", json.dumps(MANIFEST))
    for address in ("0000:11:00.0", "0000:c4:00.0"):
        (tmp_path / "bus/pci/devices" / address).mkdir(parents=True)
    reading = look(tmp_path, manifest=str(tmp_path / "node.json"))
    found = cells([reading])[NODE]
    assert (found["node_hcas_expected"], found["node_hcas_found"], found["node_hcas_certainty"]) == (2, 1, 3)
    assert (found["node_gpus_expected"], found["node_gpus_found"]) == (1, 0)
    assert labels(reading, Kind.NODE)[""]["missing"] == "0000:12:00.0 (nvidia0, GPU_0), 0000:19:00.0 (ib1, PCIE_1)"


@pytest.mark.parametrize("text", ["", "[]", '{"pci": []}', '{"pci": {"../../etc": {}}}', '{"ib": {}}',
                                  '{"pci": {}, "ib": {"link_rate": "fast"}}'])  # fmt: skip
def test_what_is_no_manifest_is_a_fault_that_says_so(tmp_path: Path, text: str) -> None:
    build_hca_tree(tmp_path, devices=1)
    put(tmp_path / "node.json", text)
    reading = look(tmp_path, manifest=str(tmp_path / "node.json"))
    (fault,) = reading.faults
    assert fault.source.endswith("node.json")
    assert cells([reading])[NODE]["node_hcas_found"] == 1
    (fault,) = look(tmp_path, manifest=str(tmp_path / "none.json")).faults
    assert "No such file" in fault.error


@given(st.binary(max_size=200))
def test_any_bytes_are_a_manifest_or_a_value_error(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        manifest.parse(data)


@pytest.mark.parametrize(("name", "gone"), [("sysfs-good.json", 0), ("sysfs-ib-operstate-down.json", 0)])
def test_a_captured_machine_against_its_manifest(name: str, gone: int, shared_dir: Path, tmp_path: Path) -> None:
    """The DGX A100 has each of the eight InfiniBand adapters of its manifest, under the names it gives them."""
    folder = shared_dir / "captures/inventory"
    listed = manifest.parse((folder / "dgx-a100-manifest.json").read_bytes())
    raw = json.loads((folder / "dgx-a100-manifest.json").read_text())
    assert {t: listed.count(t) for t in ("ib", "gpu", "pci", "net", "nvme")} == {
        t: sum(d["type"] == t for d in raw["pci"].values()) for t in ("ib", "gpu", "pci", "net", "nvme")
    }
    assert (listed.count("ib"), listed.count("gpu"), listed.count("pci"), listed.rate) == (8, 8, 6, 25e9)
    for path, text in json.loads((folder / name).read_text()).items():
        if path.startswith("/sys/") and "\0" not in path:
            put(tmp_path / path.removeprefix("/sys/"), text)
    present = {p.name for p in (tmp_path / "bus/pci/devices").iterdir()}
    missing = listed.missing(present)
    of_ib = [text for text in missing if "ib" in text.split("(")[1]]
    assert len(of_ib) == gone
    for at in sorted(tmp_path.glob("bus/pci/devices/*/infiniband/*")):
        (tmp_path / "class/infiniband").mkdir(parents=True, exist_ok=True)
        (tmp_path / "class/infiniband" / at.name).symlink_to(at)
        (at / "device").symlink_to(at.parent.parent)
    name_machine(tmp_path, "NVIDIA", "DGXA100 920-23687-2530-000")
    reading = look(tmp_path, manifest=str(folder / "dgx-a100-manifest.json"))
    row = cells([reading])[NODE]
    assert (row["node_hcas_expected"], row["node_hcas_found"]) == (8, 8)
    (tmp_path / "class/infiniband/mlx5_8").unlink()
    shutil.rmtree(tmp_path / "bus/pci/devices/0000:ba:00.0")
    reading = look(tmp_path, manifest=str(folder / "dgx-a100-manifest.json"))
    assert cells([reading])[NODE]["node_hcas_found"] == 7
    assert "0000:ba:00.0 (ib6, PCIE_2)" in labels(reading, Kind.NODE)[""]["missing"]


# --- roles


def test_roles_by_place(tmp_path: Path) -> None:
    build_dgx(tmp_path, adapters=2, gpus=8)
    add_adapter(tmp_path, "mlx5_2", 0x70, 0)
    add_adapter(tmp_path, "mlx5_3", 0x78, 1, layer="Ethernet")
    add_adapter(tmp_path, "mlx5_4", 0x80, 7)
    add_adapter(tmp_path, "mlx5_5", 0x88, -1)
    put(tmp_path / "proc/net/route", "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
        "ib1\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n")
    assert roles(tmp_path) == {
        "mlx5_0/1": "compute",  # beside a GPU
        "mlx5_1/1": "management",  # beside one, too, but with the default route
        "mlx5_2/1": "compute",  # InfiniBand on a processor with GPUs
        "mlx5_3/1": "storage",  # Ethernet on one
        "mlx5_4/1": "management",  # on a processor without
        "mlx5_5/1": "unknown",
    }


def test_without_a_gpu_nothing_tells_a_role(tmp_path: Path) -> None:
    build_hca_tree(tmp_path, devices=1)
    add_adapter(tmp_path, "mlx5_2", 0x70, 0)
    assert set(roles(tmp_path).values()) == {"unknown"}


def test_file_systems_name_their_ports(tmp_path: Path) -> None:
    build_hca_tree(tmp_path, devices=4)
    add_gpu(tmp_path, tmp_path / "devices/pci0000:10/0000:10:01.0/0000:12:00.0")
    put(tmp_path / "module/lnet/parameters/networks", "o2ib0(ib0,ib1[0]),tcp1(eth0)\n")
    put(tmp_path / "proc/mounts", "10.1.2.3:/data /data nfs4 rw,vers=4.2,proto=rdma,port=20049,addr=10.1.2.3 0 0\n"
        "10.9.9.9:/home /home nfs rw,proto=tcp,addr=10.9.9.9 0 0\n")
    put(tmp_path / "proc/net/route", "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
        "eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
        "eth1\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n"
        "ib3\t0002010A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n")
    assert roles(tmp_path) == {
        "mlx5_0/1": "compute",  # named by Lustre, but beside a GPU
        "mlx5_1/1": "storage",
        "mlx5_2/1": "unknown",
        "mlx5_3/1": "storage",
    }


@pytest.mark.parametrize(("text", "names"), [
    ("o2ib0(ib0)", ["ib0"]), ("o2ib(ib0, ib1),tcp(eth0)", ["ib0", "ib1", "eth0"]), ("tcp", []), ("", []),
    ("o2ib0(ib0:0)", ["ib0"]), ("kfi(cxi0)", ["cxi0"]),
])  # fmt: skip
def test_interfaces_of_lnet(text: str, names: list[str]) -> None:
    assert storage.lnet_interfaces(text) == names


def test_ports_of_gpfs() -> None:
    assert storage.gpfs_ports("minQuorumNodes 1\nverbsRdma enable\nverbsPorts mlx5_0/1 mlx5_1/1/2 mlx5_2\n") == [
        "mlx5_0/1", "mlx5_1/1", "mlx5_2",
    ]  # fmt: skip


@given(st.text(max_size=300))
def test_any_text_is_read_without_an_error(text: str) -> None:
    storage.lnet_interfaces(text)
    storage.gpfs_ports(text)
    storage.nfs_servers(text)
    storage.route_to("10.0.0.1", text)
    storage.route_to(text[:20], "head\n" + text)


def test_the_configuration_has_the_last_word_on_roles(tmp_path: Path) -> None:
    build_dgx(tmp_path)
    given = {"storage": ("mlx5_[01]",), "idle": ("ib2", "mlx5_3/1"), "management": ("nothing",)}
    reading = look(tmp_path, roles=given)
    assert {name: of["role"] for name, of in labels(reading, Kind.PORT).items()} == {
        "mlx5_0/1": "storage", "mlx5_1/1": "storage", "mlx5_2/1": "idle", "mlx5_3/1": "idle",
    }  # fmt: skip
    assert cells([reading])[NODE]["node_hcas_found"] == 6


# --- devices that are there and cannot be used


def open_to_programs(root: Path, devices: int, verbs: bool = True, mad: bool = True) -> None:
    """The character devices of adapters, as ib_uverbs and ib_umad make them."""
    for n in range(devices):
        if verbs:
            put(root / f"class/infiniband_verbs/uverbs{n}/ibdev", f"mlx5_{n}\n")
        if mad:
            put(root / f"class/infiniband_mad/umad{n}/ibdev", f"mlx5_{n}\n")
            put(root / f"class/infiniband_mad/issm{n}/ibdev", f"mlx5_{n}\n")


def unusable(root: Path) -> tuple[float, float, float]:
    found = node(root)
    return found["uverbs_missing"], found["umad_missing"], found["netdevs_misplaced"]


def test_devices_that_programs_can_use(tmp_path: Path) -> None:
    build_hca_tree(tmp_path, devices=3)
    open_to_programs(tmp_path, 3)
    assert unusable(tmp_path) == (0, 0, 0)
    assert "access" not in labels(look(tmp_path), Kind.NODE)[""]


def test_without_the_modules_nothing_is_known(tmp_path: Path) -> None:
    build_hca_tree(tmp_path, devices=2)
    uverbs, umad, misplaced = unusable(tmp_path)
    assert (math.isnan(uverbs), math.isnan(umad), misplaced) == (True, True, 0)


def test_missing_character_devices_are_named(tmp_path: Path) -> None:
    build_hca_tree(tmp_path, devices=3)
    open_to_programs(tmp_path, 3)
    shutil.rmtree(tmp_path / "class/infiniband_verbs/uverbs1")
    shutil.rmtree(tmp_path / "class/infiniband_mad/umad2")
    assert unusable(tmp_path) == (1, 1, 0)
    assert labels(look(tmp_path), Kind.NODE)[""]["access"] == "mlx5_1 (no uverbs device), mlx5_2 (no umad device)"


def test_an_ethernet_device_needs_no_umad(tmp_path: Path) -> None:
    build_hca_tree(tmp_path, devices=2)
    open_to_programs(tmp_path, 1)
    put(tmp_path / "class/infiniband_verbs/uverbs1/ibdev", "mlx5_1\n")
    put(tmp_path / "class/infiniband/mlx5_1/ports/1/link_layer", "Ethernet\n")
    assert unusable(tmp_path) == (0, 0, 0)


def test_an_interface_of_another_adapter_is_named(tmp_path: Path) -> None:
    build_hca_tree(tmp_path, devices=2)
    put(tmp_path / "class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0", "ib1\n")
    assert unusable(tmp_path)[2] == 1
    assert labels(look(tmp_path), Kind.NODE)[""]["access"] == "mlx5_0: ib1 of 0000:19:00.0"


def test_an_interface_of_another_function_of_the_card_is_its_own(tmp_path: Path) -> None:
    build_hca_tree(tmp_path, devices=1)
    function = next(tmp_path.glob("devices/pci*/*/0000:11:00.0"))
    build_netdev(tmp_path, function.with_name("0000:11:00.1"), "eth1", index=30)
    put(tmp_path / "class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0", "eth1\n")
    assert unusable(tmp_path)[2] == 0
