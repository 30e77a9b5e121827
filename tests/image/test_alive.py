"""`fabricmon alive`: finds the daemon by its sockets, and tells one that answers from one that does not."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fabricmon.cli import main
from fabricmon.commands import alive
from tests.rigs.certificates import Authority
from tests.rigs.daemons import FABRICMON, Daemon, fetch, free_port


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status = self.server.status  # type: ignore[attr-defined]
            self.send_response(status)
            self.end_headers()
            said = getattr(self.server, "said", b"why\n")
            self.wfile.write(said if self.path == "/-/live" else b"")

        def log_message(self, format: str, *args: object) -> None:
            pass

    one = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=one.serve_forever, daemon=True).start()
    yield one
    one.shutdown()
    one.server_close()


ANSWERS = [(200, None), (401, None), (403, None), (503, "503 why"), (404, "404 why")]


@pytest.mark.parametrize(("status", "reason"), ANSWERS)
def test_what_is_an_answer(server: ThreadingHTTPServer, status: int, reason: str | None) -> None:
    server.status = status  # type: ignore[attr-defined]
    assert alive.probe("127.0.0.1", server.server_port, 5.0) == reason


def test_silence_and_a_closed_port_are_no_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as quiet:
        port = quiet.getsockname()[1]
        assert "timed out" in (alive.probe("127.0.0.1", port, 0.2) or "")
    assert "refused" in (alive.probe("127.0.0.1", port, 0.2) or "")


@pytest.mark.parametrize(
    "wrong",
    [
        "a b:80", "a..b:80", f"{'a' * 64}:80", "[a..b]:80", "127.0.0.1:70001", "127.0.0.1:-1", "::1:80", "nowhere", "",
    ],
)  # fmt: skip
def test_an_address_that_is_none_is_reported_in_one_line(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["alive", f"--address={wrong}"]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert said.err.startswith("fabricmon alive: expected an address such as 127.0.0.1:9790")


@pytest.mark.parametrize("seconds", ["-1", "0", "nan", "inf", "1e300"])
def test_a_timeout_that_is_none_is_reported_in_one_line(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["alive", "--address", "127.0.0.1:9790", f"--timeout={seconds}"]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert said.err.startswith("fabricmon alive: expected --timeout above 0")


def test_a_port_is_enough_for_this_machine(server: ThreadingHTTPServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.status = 200  # type: ignore[attr-defined]
    assert main(["alive", "--address", f":{server.server_port}"]) == 0
    assert capsys.readouterr().out == f"alive: 127.0.0.1:{server.server_port}\n"


def test_what_answers_does_not_steer_the_terminal(
    server: ThreadingHTTPServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.status, server.said = 503, b"\x1b[2Jgone\n"  # type: ignore[attr-defined]
    assert main(["alive", "--address", f"127.0.0.1:{server.server_port}"]) == 1
    assert capsys.readouterr().out == f"not alive: 127.0.0.1:{server.server_port}: 503  [2Jgone\n"


def test_a_health_check_does_not_pay_for_a_server() -> None:
    code = "import sys, fabricmon.commands.alive; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert {"aiohttp", "asyncio", "msgspec", "numpy"} & set(done.stdout.split()) == set()


def test_a_listener_that_wants_a_certificate_of_us_answers(authority: Authority) -> None:
    pair = authority.issue("alive")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    for mode in (ssl.CERT_NONE, ssl.CERT_REQUIRED):
        context.verify_mode = mode
        with socket.create_server(("127.0.0.1", 0)) as listener:
            threading.Thread(target=_serve, args=(listener, context), daemon=True).start()
            assert alive.probe("127.0.0.1", listener.getsockname()[1], 5.0) is None, mode


def _serve(listener: socket.socket, context: ssl.SSLContext) -> None:
    """Answer whatever comes over TLS with 200 until the listener is closed."""
    with contextlib.suppress(OSError):
        while True:
            plain, _ = listener.accept()
            with contextlib.suppress(OSError), context.wrap_socket(plain, server_side=True) as one:
                one.recv(1000)
                one.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            plain.close()


def test_addresses_are_read_as_the_kernel_prints_them() -> None:
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        try:
            one = socket.create_server((host, 0), family=family)
        except OSError:
            assert family == socket.AF_INET6  # a machine without it
            continue
        with one:
            inode = str(os.fstat(one.fileno()).st_ino)
            assert inode in alive.own_sockets()
            assert list(alive.listening({inode})) == [(host, one.getsockname()[1])]
    assert list(alive.listening(set())) == []


def test_a_real_agent_is_found_whatever_port_it_has(tmp_path: Path) -> None:
    port = free_port()
    with Daemon(tmp_path / "log", [*FABRICMON, "agent", "--listen", f"127.0.0.1:{port}"]) as agent:
        agent.wait_until("the agent", lambda: fetch(f"http://127.0.0.1:{port}/-/live"))
        inodes = set()
        for path in Path(f"/proc/{agent.process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed since
                target = str(path.readlink())
                inodes |= {target[8:-1]} if target.startswith("socket:[") else set()
        assert list(alive.listening(inodes)) == [("127.0.0.1", port)]
        done = subprocess.run([*FABRICMON, "alive", "--address", f"127.0.0.1:{port}"], capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, f"alive: 127.0.0.1:{port}\n")
    assert main(["alive", "--address", f"127.0.0.1:{port}"]) == 1
    assert main(["alive", "--address", "nowhere"]) == 2
