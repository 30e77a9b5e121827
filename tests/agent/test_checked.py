"""Nothing that could not be read is OK: machines of files whose values are unreadable, asked in every way there is.

`fabricmon check` with and without an agent, the agent's /health and /metrics, `fabricmon status`, the server's /health,
page and /metrics have to say the same of one machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest

from fabricmon import cli, config
from fabricmon.agent.app import Agent
from fabricmon.agent.node import NodeSettings
from fabricmon.agent.settings import AgentConfig, PathConfig
from fabricmon.agent.single_check import check
from fabricmon.central.app import Central
from fabricmon.collect.inventory import InventoryConfig
from fabricmon.host.live import LiveHost
from tests.agent.fakes import Config, FakeCollector, FakeHost, FakeSession, until
from tests.host.trees import build_hca_tree, build_netdev, link, put
from tests.rigs.spoilt_files import spoil

PORT = "class/infiniband/mlx5_1/ports/1"


def files(tree: Path, *folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((tree / folder).iterdir()) if path.is_file()]


def healthy(tree: Path) -> None:
    build_hca_tree(tree, devices=2)


def unreadable(how: str) -> Callable[[Path], None]:
    """State, rate and all counters of one of two ports."""

    def build(tree: Path) -> None:
        build_hca_tree(tree, devices=2)
        kept = {"link_layer"}
        for path in files(tree, PORT, f"{PORT}/counters", f"{PORT}/hw_counters"):
            if path.name not in kept:
                spoil(path, how)

    return build


def state_is_a_fifo(tree: Path) -> None:
    build_hca_tree(tree, devices=2)
    spoil(tree / PORT / "state", "FIFO")


def no_counters(tree: Path) -> None:
    build_hca_tree(tree, devices=2)
    for path in files(tree, f"{PORT}/counters", f"{PORT}/hw_counters"):
        spoil(path, "not available")


def virtual_machine(tree: Path) -> None:
    function = tree / "devices/pci0000:00/0000:00:03.0"
    build_netdev(tree, function, "eth0", index=2)
    link(function / "driver", tree / "bus/pci/drivers/virtio_net")
    (tree / "bus/pci/drivers/virtio_net").mkdir(parents=True)


def no_driver(tree: Path) -> None:
    """Two adapters with their driver, and one whose driver is not loaded."""
    build_hca_tree(tree, devices=2)
    function = tree / "devices/pci0000:40/0000:40:01.0/0000:41:00.0"
    put(function / "class", "0x020700\n")
    link(tree / "bus/pci/devices/0000:41:00.0", function)


NOTHING = "nothing to check"
CASES: dict[str, tuple[Callable[[Path], None], int, str]] = {
    "healthy": (healthy, 0, "checked 2 InfiniBand ports"),
    "EIO": (unreadable("EIO"), 3, "mlx5_1/1 (state not read, no error counter read)"),
    "EACCES": (unreadable("EACCES"), 3, "mlx5_1/1 (state not read, "),
    "FIFO": (state_is_a_fifo, 3, "mlx5_1/1 (state not read)"),
    "no PMA": (no_counters, 3, "mlx5_1/1 (no error counter read)"),
    "no driver": (no_driver, 3, "0000:41:00.0 (no driver)"),
    "virtio": (virtual_machine, 3, NOTHING),
}
"""How the machine is built, the exit code, words of the first line."""


class Asked:
    """An agent of a tree and a server that follows it, for the time of a `with`."""

    def __init__(self, tree: Path, state: Path, none_expected: bool = False) -> None:
        settings = AgentConfig(listen=("127.0.0.1:0",), node="n1", path=PathConfig(str(tree)))
        collect = {"inventory": InventoryConfig(none_expected=none_expected)}
        self.agent = Agent(NodeSettings(settings, collect, {}), LiveHost(str(tree), str(tree / "proc"), "n1"))
        self._state = state

    async def __aenter__(self) -> Asked:
        self._tasks = [asyncio.create_task(self.agent.run())]
        await asyncio.wait_for(self.agent.listening.wait(), 60)
        await until(self.agent.node.schedule.board.first_round.is_set, 60)
        given = {"central.listen": ["127.0.0.1:0"], "central.state": str(self._state),
                 "central.targets": [str(self.agent.addresses[0])]}  # fmt: skip
        self.central = Central(config.load(None, given, uses=("central", "rules", "topology")))
        self._tasks.append(asyncio.create_task(self.central.run()))
        await asyncio.wait_for(self.central.listening.wait(), 60)
        self.url = f"http://127.0.0.1:{self.central.addresses[0].port}"
        await until(lambda: any(n.checked is not None for n in self.central.engine.nodes()), 30)
        await asyncio.sleep(1.1)  # the counts of the page are those of a second ago
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in reversed(self._tasks):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def get(self, path: str, agent: bool = False) -> str:
        base = f"http://{self.agent.addresses[0]}" if agent else self.url
        async with aiohttp.ClientSession() as session, session.get(base + path) as answer:
            return await answer.text()


@pytest.mark.parametrize("case", CASES)
async def test_every_way_of_asking_says_the_same(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build, code, words = CASES[case]
    tree = tmp_path / "sys"
    build(tree)
    status = {0: "pass", 3: "unknown"}[code]
    roots = ("--path.sysfs", str(tree), "--path.procfs", str(tree / "proc"))
    assert await asyncio.to_thread(cli.main, ["check", "--direct", *roots]) == code
    direct = capsys.readouterr().out.splitlines()[0]
    async with Asked(tree, tmp_path / "state") as asked:
        assert await asyncio.to_thread(cli.main, ["check", "--agent", str(asked.agent.addresses[0])]) == code
        by_agent = capsys.readouterr().out.splitlines()[0]
        assert f'"status":"{status}"' in await asked.get("/health", agent=True)
        assert f'fabricmon_node_health{{status="{status}"}} 1\n' in await asked.get("/metrics", agent=True)
        assert await asyncio.to_thread(cli.main, ["status", "--server", asked.url]) == code
        summary = capsys.readouterr().out
        assert f'"status":"{status}"' in await asked.get("/health")
        page, metrics = await asked.get("/"), await asked.get("/metrics")
    assert (words in direct, words in by_agent) == (True, True), (direct, by_agent)
    assert ("<h1>OK</h1>" in page) == (code == 0)
    unchecked = "fabricmon_central_nodes_nothing_to_check" if words == NOTHING else "fabricmon_central_nodes_unchecked"
    assert f"{unchecked} {float(code != 0)}" in metrics.replace(" 1\n", " 1.0\n").replace(" 0\n", " 0.0\n")
    if code:
        component = "PCIe link" if case == "no driver" else "InfiniBand port"
        gap = "nothing to check on 1 node" if words == NOTHING else f"not checked: 1 {component} on 1 node"
        assert (gap in summary, gap in page) == (True, True), summary


async def test_a_node_that_is_expected_to_have_no_fabric_is_ok_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = tmp_path / "sys"
    virtual_machine(tree)
    roots = ("--path.sysfs", str(tree), "--path.procfs", str(tree / "proc"))
    assert await asyncio.to_thread(cli.main, ["check", "--direct", "--expect-nothing", *roots]) == 0
    assert "OK " in (first := capsys.readouterr().out.splitlines()[0])
    assert "nothing expected" in first
    async with Asked(tree, tmp_path / "strict") as strict:
        address = str(strict.agent.addresses[0])
        assert await asyncio.to_thread(cli.main, ["check", "--agent", address, "--expect-nothing"]) == 0
    async with Asked(tree, tmp_path / "state", none_expected=True) as asked:
        assert await asyncio.to_thread(cli.main, ["check", "--agent", str(asked.agent.addresses[0])]) == 0
        assert await asyncio.to_thread(cli.main, ["status", "--server", asked.url]) == 0
        assert '"status":"pass"' in await asked.get("/health")
        assert "<h1>OK</h1>" in await asked.get("/")


def test_the_option_hides_no_hardware_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = tmp_path / "sys"
    state_is_a_fifo(tree)
    roots = ("--path.sysfs", str(tree), "--path.procfs", str(tree / "proc"))
    assert cli.main(["check", "--direct", "--expect-nothing", *roots]) == 3
    capsys.readouterr()
    spoil(tree / "class/infiniband", "FIFO")
    spoil(tree / "class/net", "EACCES")
    assert cli.main(["check", "--direct", "--expect-nothing", *roots]) == 3
    assert "cannot read" in capsys.readouterr().out.splitlines()[0]


def test_a_check_ends_whatever_does_not_end_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def stubborn(_: object) -> None:
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                continue

    monkeypatch.setattr("fabricmon.agent.schedule.Schedule.run", stubborn)
    monkeypatch.setattr("fabricmon.agent.single_check.CANCEL_LIMIT", 0.1)
    settings = NodeSettings(AgentConfig(), {"fake": Config()}, {})
    health = check(settings, FakeHost(), {"fake": FakeCollector(mlx5_0=FakeSession("mlx5_0"))}, limit=0.2)
    assert health.status == "unknown"


def test_a_check_that_is_blocked_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    blocked = threading.Event()
    monkeypatch.setattr("fabricmon.agent.node.LocalNode.health", lambda _: blocked.wait(60))
    monkeypatch.setattr("fabricmon.agent.single_check.GRACE", 0.2)
    settings = NodeSettings(AgentConfig(), {"fake": Config()}, {})
    with pytest.raises(TimeoutError, match="no result within"):
        check(settings, FakeHost(), {"fake": FakeCollector(mlx5_0=FakeSession("mlx5_0"))}, limit=0.2)
    blocked.set()
