"""A real Kubernetes API on loopback: etcd and kube-apiserver, RBAC on. Nothing schedules or runs pods."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.rigs.daemons import free_port

NO_ADMISSION = "ServiceAccount"  # it would refuse pods whose token volume nobody makes


class Server:
    """`kubectl(...)` speaks as administrator; `url`, `ca` and `token(...)` are for others."""

    def __init__(self, directory: Path, url: str) -> None:
        self.directory, self.url = directory, url
        self.ca = directory / "certs" / "apiserver.crt"
        self.config = directory / "admin.kubeconfig"

    def kubectl(self, *words: str, stdin: str = "", check: bool = True) -> str:
        """What kubectl prints; RuntimeError with what it complains of."""
        command = ["kubectl", "--kubeconfig", str(self.config), *words]
        run = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60)
        if check and run.returncode:
            raise RuntimeError(f"{' '.join(words)}: {run.stderr.strip()}")
        return run.stdout if check else (run.stdout + run.stderr)

    def get(self, *words: str) -> Any:
        return json.loads(self.kubectl("get", *words, "-o", "json"))

    def token(self, namespace: str, account: str, seconds: int = 3600) -> str:
        """A token of a service account, as the kubelet asks for one."""
        return self.kubectl("-n", namespace, "create", "token", account, f"--duration={seconds}s").strip()


@contextlib.contextmanager
def running(program: Path, directory: Path) -> Iterator[Server]:
    """Start both programs, wait until the API is ready, end them."""
    directory.mkdir(parents=True, exist_ok=True)
    client, peer, port = free_port(), free_port(), free_port()
    key, tokens = directory / "account.key", directory / "tokens.csv"
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
    tokens.write_text("administrator,admin,admin,system:masters\n")
    tokens.chmod(0o600)
    etcd = ["etcd", "--data-dir", directory / "etcd", "--listen-client-urls", f"http://127.0.0.1:{client}",
            "--advertise-client-urls", f"http://127.0.0.1:{client}", "--listen-peer-urls", f"http://127.0.0.1:{peer}",
            "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
            "--initial-cluster", f"default=http://127.0.0.1:{peer}"]  # fmt: skip
    api = [program, "--etcd-servers", f"http://127.0.0.1:{client}", "--bind-address", "127.0.0.1",
           "--secure-port", str(port), "--cert-dir", directory / "certs", "--token-auth-file", tokens,
           "--authorization-mode", "RBAC", "--service-cluster-ip-range", "10.99.0.0/24",
           "--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", key,
           "--service-account-signing-key-file", key, "--disable-admission-plugins", NO_ADMISSION]  # fmt: skip
    server = Server(directory, f"https://127.0.0.1:{port}")
    server.config.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "rig",
        "clusters": [{"name": "rig", "cluster": {"server": server.url, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "admin", "user": {"token": "administrator"}}],
        "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": "admin"}}],
    }))  # fmt: skip
    started = []
    try:
        for name, command in (("etcd", etcd), ("apiserver", api)):
            log = (directory / f"{name}.log").open("wb")
            started.append(subprocess.Popen([str(word) for word in command], stdout=log, stderr=log))
        until = time.monotonic() + 120
        while "ok" not in server.kubectl("get", "--raw", "/readyz", check=False):
            if started[1].poll() is not None or time.monotonic() > until:
                raise RuntimeError((directory / "apiserver.log").read_text()[-2000:])
            time.sleep(0.3)
        yield server
    finally:
        for process in reversed(started):  # the API server first, which waits for its etcd
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:  # it lets watches end by themselves
                process.kill()
                process.wait()
