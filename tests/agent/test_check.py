"""`fabricmon check` on real files: what it prints, and the exit code for every verdict, with an agent and without."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from fabricmon import cli
from fabricmon.agent.node import NodeSettings
from fabricmon.agent.readings.report import CollectorHealth, Health, SymptomHealth, verdict
from fabricmon.agent.settings import AgentConfig
from fabricmon.agent.single_check import check_once
from fabricmon.commands.check import CODES, render
from fabricmon.model import Checked, CheckedNode, ComponentId, Fault, Kind, Severity, Symptom, Unchecked
from fabricmon.web.settings import WebConfig
from tests.agent.fakes import Config, FakeCollector, FakeHost, FakeSession, Running
from tests.host.trees import build_hca_tree
from tests.rigs.certificates import Authority


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    build_hca_tree(tmp_path / "sys", devices=4)
    return tmp_path / "sys"


def port(tree: Path, device: str) -> Path:
    return tree / f"class/infiniband/{device}/ports/1"


def check(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = cli.main(["check", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_healthy_node_passes(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = check(capsys, "--direct", "--path.sysfs", str(tree))
    assert code == 0
    assert out.startswith("OK ")
    assert "no symptoms; checked 4 InfiniBand ports (" in out


def test_a_link_that_is_down_is_one_line_with_its_reading(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (port(tree, "mlx5_2") / "state").write_text("1: DOWN\n")
    (port(tree, "mlx5_2") / "phys_state").write_text("2: Polling\n")
    code, out, _ = check(capsys, "--direct", "--path.sysfs", str(tree))
    assert code == 1
    assert out.startswith("WARNING ")
    lines = [line for line in out.splitlines()[1:] if line.startswith("WARNING")]
    assert len(lines) == 1
    assert "mlx5_2/1" in lines[0]
    assert "down" in lines[0]
    code, verbose, _ = check(capsys, "--direct", "--path.sysfs", str(tree), "-v")
    assert " why: " in verbose
    assert " next step: " in verbose
    code, out, _ = check(capsys, "--direct", "--path.sysfs", str(tree), "--json")
    assert code == 1
    assert json.loads(out)["symptoms"][0]["component"].endswith("/mlx5_2/1")


def test_a_node_without_any_port_is_unknown_not_healthy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "class").mkdir()
    code, out, _ = check(capsys, "--direct", "--path.sysfs", str(tmp_path))
    assert code == 3
    assert out.startswith("UNKNOWN ")


def test_an_agent_that_does_not_answer_is_unknown_when_it_was_named(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = check(capsys, "--agent", "127.0.0.1:1")
    assert code == 3
    assert "no answer from an agent at 127.0.0.1:1" in err
    code, _, err = check(capsys, "--agent", "nonsense")
    assert code == 3
    assert "expected an address" in err


async def test_the_agents_answer_is_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    session = FakeSession("mlx5_0", ("state", "phys_state", "symbol_errors"))
    session.values = [4.0, 5.0, 0.0]
    async with Running(FakeCollector(mlx5_0=session), evaluate=True) as running:
        await running.agent.node.schedule.board.first_round.wait()
        address = str(running.agent.addresses[0])
        capsys.readouterr()  # the agent's log
        code, out, _ = await asyncio.to_thread(check, capsys, "--agent", address)
    assert code == 0
    assert out.startswith(f"OK host-007 - no symptoms; checked 1 InfiniBand port (agent at {address})")


@pytest.fixture
def listener() -> Iterator[ThreadingHTTPServer]:
    """Answers 404 to everything; `shown` are the Authorization headers it got, None for a request without one."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.server.shown.append(self.headers.get("Authorization"))  # type: ignore[attr-defined]
            self.send_error(404)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.shown = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def shown(listener: ThreadingHTTPServer) -> list[str | None]:
    found: list[str | None] = listener.shown  # type: ignore[attr-defined]
    return found


@pytest.fixture
def secrets(tmp_path: Path) -> dict[str, str]:
    """Files with a token and a user, by the word of their options."""
    texts = {"token": "server-token\n", "user": "mara:right\n"}
    for word, text in texts.items():
        (tmp_path / word).write_text(text)
    return {word: str(tmp_path / word) for word in texts}


MARA = f"Basic {base64.b64encode(b'mara:right').decode()}"


def test_what_the_environment_has_for_the_server_is_shown_to_no_agent(
    listener: ThreadingHTTPServer, secrets: dict[str, str], capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    for word, file in {**secrets, "ca": "/none/ca.crt", "cert": "/none/own.crt"}.items():
        monkeypatch.setenv(f"FABRICMON_{word.upper()}_FILE", file)
    code, _, err = check(capsys, "--agent", f"127.0.0.1:{listener.server_port}")
    assert (code, shown(listener)) == (3, [None])
    assert "HTTP 404 to /health" in err
    cli.main(["status", "--server", f"http://127.0.0.1:{listener.server_port}"])
    assert shown(listener)[1:] == ["Bearer server-token"]


@pytest.mark.parametrize("command", [["check", "--agent"], ["status", "--server"]], ids=lambda words: words[0])
@pytest.mark.parametrize(
    ("words", "header"),
    [(("token",), "Bearer server-token"), (("user",), MARA), (("user", "token"), "Bearer server-token")],
)
def test_of_a_token_and_a_user_agent_and_server_are_shown_the_same(
    listener: ThreadingHTTPServer, secrets: dict[str, str], command: list[str], words: tuple[str, ...], header: str
) -> None:
    options = [text for word in words for text in (f"--{word}-file", secrets[word])]
    cli.main([*command, f"http://127.0.0.1:{listener.server_port}", *options])
    assert shown(listener) == [header]


@pytest.mark.parametrize("command", [["check", "--agent"], ["status", "--server"]], ids=lambda words: words[0])
@pytest.mark.parametrize("content", [None, b"\xff\xfe"], ids=["missing", "no text"])
def test_a_secret_that_cannot_be_used_is_one_line_with_its_file(
    listener: ThreadingHTTPServer, command: list[str], content: bytes | None, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    code = cli.main([*command, f"http://127.0.0.1:{listener.server_port}", "--token-file", str(file)])
    err = capsys.readouterr().err
    assert (code, shown(listener), err.count("\n")) == (3, [], 1)
    assert str(file) in err


async def test_the_token_of_the_agents_own_configuration_is_shown_to_it(
    secrets: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FABRICMON_TOKEN_FILE", secrets["token"])
    (tmp_path / "own").write_text("own-token\n")
    own = WebConfig(token_file=str(tmp_path / "own"))
    async with Running(FakeCollector(mlx5_0=FakeSession("mlx5_0")), evaluate=True, web=own) as running:
        await running.agent.node.schedule.board.first_round.wait()
        address = str(running.agent.addresses[0])
        config = configured(tmp_path, listen=[address], web={"token_file": own.token_file})
        _, out, _ = await asyncio.to_thread(check, capsys, "--config", config)
        assert f"(agent at {address})" in out
        code, _, err = await asyncio.to_thread(check, capsys, "--agent", address)
    assert code == 3
    assert "refused: this needs a bearer token (--token-file, --user-file)" in err


def configured(folder: Path, **agent: Any) -> str:
    """The path of an agent's configuration."""
    path = folder / "agent.yaml"
    path.write_text(yaml.safe_dump({"agent": agent}))
    return str(path)


@pytest.mark.parametrize(
    ("web", "said"),
    [
        ({"config_file": "missing.yaml"}, "missing.yaml: cannot be read: No such file or directory"),
        ({"config_file": "broken.yaml"}, "broken.yaml:1: tls_server: unknown key, did you mean 'tls_server_config'?; "),
        ({"token_file": "missing.token"}, "missing.token"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)  # fmt: skip
def test_files_of_the_agent_that_cannot_be_used_leave_a_direct_read(
    web: dict[str, str], said: str, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tree.parent
    (folder / "broken.yaml").write_text("tls_server: {}\nrate: {}\n")
    files = {key: str(folder / name) for key, name in web.items()}
    config = configured(folder, listen=["127.0.0.1:1"], path={"sysfs": str(tree)}, web=files)
    code, out, err = check(capsys, "--config", config)
    assert (code, err) == (0, "")
    assert out.startswith("OK ")
    assert "(direct read)" in out
    (note,) = [line for line in out.splitlines() if line.startswith("note ")]
    assert said in note
    assert "read directly" in note
    code, out, err = check(capsys, "--config", config, "--agent", "127.0.0.1:1")
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert err.startswith("UNKNOWN: ")
    assert said in err


async def test_a_client_certificate_is_shown_and_a_key_with_a_passphrase_refused(
    authority: Authority, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server, own = authority.issue("check-server", "IP:127.0.0.1"), authority.issue("check-client", "DNS:client")
    tls = {"cert_file": str(server.cert), "key_file": str(server.key), "client_ca_file": str(authority.ca),
           "client_auth_type": "RequireAndVerifyClientCert"}  # fmt: skip
    (tmp_path / "web.yaml").write_text(yaml.safe_dump({"tls_server_config": tls}))
    locked = tmp_path / "locked.key"
    words = ("openssl", "ec", "-aes256", "-passout", "pass:secret", "-in", own.key, "-out", locked)
    subprocess.run(words, check=True, capture_output=True, timeout=60)
    web = WebConfig(config_file=str(tmp_path / "web.yaml"))
    async with Running(FakeCollector(mlx5_0=FakeSession("mlx5_0")), evaluate=True, web=web) as running:
        await running.agent.node.schedule.board.first_round.wait()
        address = str(running.agent.addresses[0])
        config = configured(tmp_path, listen=[address], web={"config_file": web.config_file})
        for trust in (("--config", config), ("--ca-file", str(authority.ca))):
            asked = (*trust, "--agent", address, "--cert-file", str(own.cert), "--key-file")
            _, out, err = await asyncio.to_thread(check, capsys, *asked, str(own.key))
            assert f"(agent at {address})" in out, err
            code, out, err = await asyncio.to_thread(check, capsys, *asked, str(locked))
            assert (code, out) == (3, "")
            assert "encrypted keys are not supported" in err


async def test_a_device_that_hangs_is_not_passed_over() -> None:
    good, bad = FakeSession("mlx5_0", ("state", "symbol_errors")), FakeSession("mlx5_1", ("state", "symbol_errors"))
    good.values = [4.0, 0.0]
    bad.gate.clear()
    settings = NodeSettings(AgentConfig(), {"fake": Config(deadline=0.1)}, {})
    health = await check_once(settings, FakeHost(), {"fake": FakeCollector(mlx5_0=good, mlx5_1=bad)}, apart=0.2)
    bad.gate.set()
    assert health.status == "unknown"
    assert health.reason == "cannot read mlx5_1 (fake)"
    text = render(health, "direct read")
    assert text.startswith("UNKNOWN host-007: cannot read mlx5_1 (fake)")
    assert "unread    fake mlx5_1: a read hangs since" in text


async def test_a_defect_in_a_rule_makes_the_status_unknown_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    session = FakeSession("mlx5_0", ("state", "symbol_errors"))
    session.values = [4.0, 0.0]
    async with Running(FakeCollector(mlx5_0=session), evaluate=True) as running:
        node = running.agent.node
        await node.schedule.board.first_round.wait()

        def broken(*_: object) -> None:
            raise ZeroDivisionError("a rule divides")

        with monkeypatch.context() as patch:
            patch.setattr("fabricmon.agent.readings.evaluation.NodeEvaluator.tick", broken)
            node.tick()
            assert (node.health().status, node.health().reason) == (
                "unknown", "evaluation failed: ZeroDivisionError: a rule divides")
        node.tick()
        assert node.health().status == "pass"


def symptom(severity: Severity) -> Symptom:
    return Symptom("r", "k", ComponentId(Kind.PORT, "n", "p"), severity, 0.0, math.nan)


ALL = CheckedNode((Checked("infiniband", 8, 0),))
PART = CheckedNode((Checked("infiniband", 6, 2),), (Unchecked("mlx5_3/1", "infiniband", "state not read"),))
NONE_EXPECTED = CheckedNode(none_expected=True)


@pytest.mark.parametrize(("severities", "checked", "trouble", "status", "reason"), [
    ((), ALL, "", "pass", ""),
    ((Severity.INFO,), ALL, "", "pass", ""),
    ((Severity.WARNING, Severity.INFO), ALL, "", "warn", ""),
    ((Severity.WARNING, Severity.CRITICAL), ALL, "", "critical", ""),
    ((), CheckedNode(), "", "unknown", "nothing to check: no fabric hardware found"),
    ((), NONE_EXPECTED, "", "pass", "nothing expected"),
    ((), NONE_EXPECTED, "cannot read x", "unknown", "cannot read x"),
    ((Severity.WARNING,), NONE_EXPECTED, "", "warn", ""),
    ((), PART, "", "unknown", "not checked: mlx5_3/1 (state not read) and 1 more"),
    ((Severity.INFO,), PART, "", "unknown", "not checked: mlx5_3/1 (state not read) and 1 more"),
    ((Severity.WARNING,), PART, "", "warn", ""),
    ((), ALL, "cannot read x", "unknown", "cannot read x"),
    ((Severity.WARNING,), ALL, "cannot read x", "warn", ""),
])
def test_verdicts(
    severities: tuple[Severity, ...], checked: CheckedNode, trouble: str, status: str, reason: str
) -> None:
    assert verdict([symptom(s) for s in severities], checked, trouble) == (status, reason)
    assert status in CODES


def test_every_sort_of_line() -> None:
    faults = tuple(Fault("infiniband", "mlx5_6/1", path, "not a number") for path in ("/sys/x", "/sys/y"))
    collectors = (
        CollectorHealth("infiniband", "mlx5_6", True, "", 90.0, 0.1, None, 2, faults),
        CollectorHealth("infiniband", "mlx5_7", False, "No such device", None, None, None, 1, ()),
    )
    one: dict[str, Any] = {"rule": "link_down", "kind": "link_down", "title": "Link down", "why": "W", "action": "A"}
    symptoms = (
        SymptomHealth(severity=Severity.CRITICAL, component="n/mlx5_3/1", since=0.0, evidence=("1", "down"), **one),
        SymptomHealth(severity=Severity.INFO, component="n/a", since=99.0, evidence=(), **one),
    )
    checked = (Checked("infiniband", 7, 1), Checked("nvlink", 8, 0, 144), Checked("pcie", 1, 0))
    unread = (Unchecked("mlx5_6/1", "infiniband", "state not read, no error counter read"),)
    health = Health("n", "0", "critical", "", 0.0, 100.0, checked, unread, False, collectors, symptoms)
    text = render(health, "agent", "a note")
    assert text.splitlines() == [
        "CRITICAL n - 1 critical, 1 info; checked 7 InfiniBand ports, 8 GPUs with 144 NVLinks, 1 PCIe link; "
        "not checked: 1 InfiniBand port (agent)",
        "CRITICAL  mlx5_3/1  Link down: 1; down (for 100s)",
        "INFO      a         Link down",
        "unread    mlx5_6/1: state not read, no error counter read",
        "fault     infiniband mlx5_6: /sys/x: not a number and 1 more",
        "unread    infiniband mlx5_7: No such device",
        "note      a note",
        "note      -v prints why each symptom matters and the next step",
    ]
