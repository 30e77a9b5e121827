"""From a real link going down to the webhook: real interfaces, agent, server and receiver in one network namespace."""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.rigs.daemons import FABRICMON, Daemon, free_port, wait_for
from tests.rigs.receiver import posts

pytestmark = [pytest.mark.netns, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
LINKS = 20
FLAPPING = 2  # links that are incidents of their own: a third within ten minutes is the host's


class Site:
    """A namespace with LINKS veth pairs veth0-peer0, veth1-peer1, …; the agent watches the veth side of each.

    The peer side is what a test takes down: as on a real node, where the far end or the cable fails and not the
    interface's own setting.
    """

    def __init__(self, folder: Path, rules: dict[str, dict[str, object]]) -> None:
        self.folder, self.rules = folder, rules
        self.name = f"fabricmon-{os.getpid()}-{free_port()}"
        self.received = folder / "received.jsonl"
        self.daemons: list[Daemon] = []

    def ip(self, *words: str) -> None:
        subprocess.run(["ip", "-n", self.name, *words], check=True, timeout=120, capture_output=True)

    def inside(self, name: str, *command: object) -> Daemon:
        daemon = Daemon(self.folder / f"{name}.log", command, ("ip", "netns", "exec", self.name))
        self.daemons.append(daemon)
        return daemon

    def answers(self, url: str) -> bool:
        ask = "import sys, urllib.request as r; r.urlopen(sys.argv[1], timeout=5)"
        command = ["ip", "netns", "exec", self.name, sys.executable, "-c", ask, url]
        return subprocess.run(command, capture_output=True, timeout=120).returncode == 0

    def api(self, path: str) -> object:
        ask = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1], timeout=5).read().decode())"
        command = ["ip", "netns", "exec", self.name, sys.executable, "-c", ask, f"http://127.0.0.1:9791{path}"]
        return json.loads(subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout)

    def __enter__(self) -> "Site":
        subprocess.run(["ip", "netns", "add", self.name], check=True, timeout=120)
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self) -> None:
        self.ip("link", "set", "lo", "up")
        for n in range(LINKS):
            self.ip("link", "add", f"veth{n}", "type", "veth", "peer", "name", f"peer{n}")
            self.ip("link", "set", f"veth{n}", "up")
            self.ip("link", "set", f"peer{n}", "up")
        config = self.folder / "fabricmon.yaml"
        ops = {"kind": "webhook", "url": "http://127.0.0.1:9800/", "budget": 0}  # each change is measured
        ethernet = {"ethernet": {"include": ["veth*"]}}
        config.write_text(yaml.safe_dump({"collect": ethernet, "rules": self.rules, "senders": {"ops": ops}}))
        hook = self.inside("receiver", sys.executable, "-m", "tests.rigs.receiver", 9800, self.received)
        agent = self.inside(
            "agent", *FABRICMON, "agent", "--config", config, "--node", "node-1", "--listen", "127.0.0.1:9790"
        )
        agent.wait_until("agent", lambda: self.answers("http://127.0.0.1:9790/-/ready"))
        hook.wait_until("receiver", lambda: self.answers("http://127.0.0.1:9800/"))
        server = self.inside(
            "server", *FABRICMON, "central", "--config", config, "--listen", "127.0.0.1:9791",
            "--state", self.folder / "state", "--target", "127.0.0.1:9790",
        )  # fmt: skip
        server.wait_until("server", lambda: self.answers("http://127.0.0.1:9791/-/ready"))
        server.wait_until("the node on the server", lambda: '"live"' in json.dumps(self.api("/api/v1/nodes")))

    def __exit__(self, *_: object) -> None:
        for daemon in reversed(self.daemons):
            daemon.stop()
        subprocess.run(["ip", "netns", "del", self.name], check=False, timeout=120)

    def sent(self) -> list[tuple[float, dict]]:
        """Every incident of every post with the time it came."""
        return [(post["at"], incident) for post in posts(self.received) for incident in post["body"]["incidents"]]

    def flap(self, link: int) -> float:
        """Take a link down three times; when the third began."""
        for down in range(3):
            start = time.monotonic()
            self.ip("link", "set", f"peer{link}", "down")
            time.sleep(0.1)
            self.ip("link", "set", f"peer{link}", "up")
            if down < 2:
                time.sleep(0.1)
        return start

    def wait_notified(self, kind: str, of: int | str, status: str, patience: float = 150.0) -> tuple[float, dict]:
        """The first notification of that incident, of a link or another component; on failure, the logs of the
        daemons."""
        component = f"link(node-1/veth{of})" if isinstance(of, int) else of

        def look() -> tuple[float, dict] | None:
            match = (kind, component, status)
            return next((t for t in self.sent() if (t[1]["kind"], t[1]["component"], t[1]["status"]) == match), None)

        try:
            return wait_for(f"{kind} {component} {status}", look, patience, 0.01)
        except TimeoutError as error:
            received = [(i["kind"], i["component"], i["status"]) for _, i in self.sent()]
            tails = "\n".join(f"--- {d.log.name}\n{d.tail(1500)}" for d in self.daemons)
            raise TimeoutError(f"{error}; received {received}\n{tails}") from None


def table(what: str, seconds: list[float]) -> None:
    median, worst = 1000 * statistics.median(seconds), 1000 * max(seconds)
    print(f"\n{what}: median {median:.0f} ms, worst of {len(seconds)} {worst:.0f} ms")


@pytest.fixture
def site(require, tmp_path):
    require("netns", "makes real links")
    require("ip")

    def make(**rules: dict[str, object]) -> Site:
        return Site(tmp_path, rules)

    return make


def test_link_down_is_notified_at_once(site):
    """One link after the other goes down and comes back; each is one incident, notified and resolved."""
    delays = []
    with site(link_down={"hold": "0s", "clear": "0s"}) as here:
        for n in range(LINKS):
            start = time.monotonic()
            here.ip("link", "set", f"peer{n}", "down")
            at, incident = here.wait_notified("link_down", n, "firing")
            delays.append(at - start)
            assert (incident["members"], incident["severity"]) == ({"bad": 1, "of": 1}, "warning")
            here.ip("link", "set", f"peer{n}", "up")
            _, resolved = here.wait_notified("link_down", n, "resolved")
            assert resolved["id"] == incident["id"]
        sent = [(incident["component"], incident["status"]) for _, incident in here.sent()]
    table("link down to webhook (hold 0s)", delays)
    assert sorted(sent) == sorted((f"link(node-1/veth{n})", s) for n in range(LINKS) for s in ("firing", "resolved"))


def test_third_down_is_notified_as_flapping(site):
    """Each link goes down three times in a row; the receiver gets one notification, of flapping; of the third link of
    this host, one of the host with all three."""
    delays = []
    # A flap is remembered for minutes. Here it decays in seconds, so that one link is well again when the next begins.
    with site(link_flapping={"half_life": "2s", "clear_at": 1900}) as here:
        for n in range(FLAPPING):
            start = here.flap(n)
            at, incident = here.wait_notified("link_flapping", n, "firing")
            delays.append(at - start)
            _, resolved = here.wait_notified("link_flapping", n, "resolved")
            assert resolved["id"] == incident["id"]
        sent = [(incident["kind"], incident["component"], incident["status"]) for _, incident in here.sent()]
        start = here.flap(FLAPPING)
        at, host = here.wait_notified("link_flapping", "host(node-1)", "firing")
        delays.append(at - start)
    table("third down to webhook", delays)
    assert sorted(sent) == sorted(
        ("link_flapping", f"link(node-1/veth{n})", s) for n in range(FLAPPING) for s in ("firing", "resolved")
    )
    assert host["members"] == {"bad": FLAPPING + 1, "of": LINKS}
