"""The server as a process: started by a service manager, told to read again, stopped, refused a bad start."""

import os
import signal
import socket
import subprocess

import yaml

from tests.rigs.daemons import FABRICMON, Daemon, fetch, fetch_json, free_port, wait_for


def test_ready_reload_and_stop_as_a_service_manager_sees_them(tmp_path, monkeypatch):
    told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    told.bind(str(tmp_path / "notify"))
    told.settimeout(60)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    port = free_port()
    path = tmp_path / "fabricmon.yaml"
    path.write_text(yaml.safe_dump({"central": {"targets": ["127.0.0.1:1"]}}))
    command = [*FABRICMON, "central", "--config", path, "--listen", f"127.0.0.1:{port}", "--state", tmp_path / "state"]
    with Daemon(tmp_path / "log", command) as server:
        assert b"READY=1" in told.recv(4096)
        assert fetch(f"http://127.0.0.1:{port}/-/ready") == "ok\n"
        nodes = f"http://127.0.0.1:{port}/api/v1/nodes"
        wait_for("the refused agent", lambda: fetch_json(nodes)["nodes"][0]["presence"] == "refused")
        assert fetch_json(f"http://127.0.0.1:{port}/health")["status"] == "unknown"
        path.write_text(yaml.safe_dump({"central": {"targets": []}}))
        os.kill(server.process.pid, signal.SIGHUP)
        assert b"RELOADING=1" in told.recv(4096)
        assert b"READY=1" in told.recv(4096)
        wait_for("the target to go", lambda: fetch_json(nodes)["total"] == 0)
        server.process.send_signal(signal.SIGTERM)
        assert b"STOPPING=1" in told.recv(4096)
        assert server.process.wait(15) == 0


def refused(*arguments):
    done = subprocess.run([*FABRICMON, "central", *map(str, arguments)], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr


def test_a_start_that_cannot_be(tmp_path):
    state = ("--state", tmp_path / "state", "--listen", "127.0.0.1:0")
    assert refused(*state, "--topology", tmp_path / "none")[0] == 2
    code, said = refused(*state, "--target", "a b")
    assert (code, said) == (
        2,
        "command line: central.targets[0]: 'a b': expected HOST, HOST:PORT or HOST:PORT/PREFIX\n",
    )
    code, said = refused(*state, "--webhook", "ftp://x")
    assert code == 2
    assert "senders.flag-webhook-1" in said
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, said = refused("--state", tmp_path / "state", "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
        assert code == 1
        assert "fabricmon central:" in said
    blocked = tmp_path / "file"
    blocked.write_text("")
    code, said = refused("--state", blocked / "state", "--listen", "127.0.0.1:0")
    assert (code, said.count("\n")) == (1, 1)


def test_a_check_reads_every_file_that_a_start_reads_and_names_all_that_is_wrong(tmp_path):
    (tmp_path / "web.yml").write_text("basic_auth_user: {}\n")
    (tmp_path / "empty").write_text("")
    path = tmp_path / "central.yaml"
    settings = {
        "web": {"config_file": str(tmp_path / "web.yml")},
        "agents": {"token_file": str(tmp_path / "empty")},
        "targets": ["a b"],
    }
    path.write_text(yaml.safe_dump({"central": settings, "topology": {"file": str(tmp_path / "none")}}))
    code, said = refused("--check", "--config", path)
    assert code == 2
    for place in ("topology.file", "central.targets[0]", "basic_auth_user", "central.agents.token_file"):
        assert place in said
    path.write_text(yaml.safe_dump({"central": {"state": str(tmp_path / "state")}}))
    assert refused("--check", "--config", path) == (0, "")
    assert not (tmp_path / "state").exists()
