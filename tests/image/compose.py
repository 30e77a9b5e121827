"""deploy/compose with containers, by a real engine and a real `docker compose`: `python -m tests.image.compose`.

Needs what `python -m tests.image` needs, the ports 9791, 9090 and 3000, and Compose 2: the one that DOCKER_COMPOSE
names or a docker-compose in the path, else that of Debian 13, which is fetched and not installed. Images whose
registry cannot be reached have a stand-in of Debian's packages; Grafana is no Debian package, so without its registry
its service is left out, and the run says so.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.rigs.clone import fresh_clone
from tests.rigs.daemons import fetch, fetch_json, wait_for
from tests.rigs.engine import CACHE, ROOT, Engine, missing
from tests.rigs.machine import mirror
from tests.rigs.report import NotSo, seen

FILE = Path("deploy/compose/compose.yaml")
SERVICES: dict[str, Any] = yaml.safe_load((ROOT / FILE).read_text())["services"]
PAGE, PROMETHEUS, GRAFANA = (f"http://127.0.0.1:{port}" for port in (9791, 9090, 3000))
PROMETHEUS_STARTS = (
    'ENTRYPOINT ["prometheus", "--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/tmp/tsdb"]'
)


class Compose:
    """`docker compose` with the project's file, and what the stand-ins need added."""

    def __init__(self, engine: Engine, program: str, clone: Path, added: Path) -> None:
        self._environ = engine.environ
        self._words = [program, "--file", str(clone / FILE), "--file", str(added)]

    def do(self, *words: str, timeout: float = 120.0) -> str:
        done = subprocess.run([*self._words, *words], env=self._environ, stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, timeout=timeout, check=False)  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"docker compose {' '.join(words)}\nexit {done.returncode}\n{done.stderr[-3000:]}")
        return done.stdout.strip()


def program() -> str:
    """A Compose of the second generation."""
    for found in (os.environ.get("DOCKER_COMPOSE"), shutil.which("docker-compose"), *_fetched()):
        if found and re.match(rb"v?[2-9]\.", subprocess.run([found, "version", "--short"], capture_output=True).stdout):
            return found
    raise RuntimeError("no Compose 2 can be had")


def _fetched() -> Iterator[str]:
    """Debian 13's docker-compose: one static program in a package (Debian 12 has only the first generation)."""
    place = CACHE / "compose"
    if not list(place.glob("*.deb")):
        (place / "lists").mkdir(parents=True, exist_ok=True)
        key = "/usr/share/keyrings/debian-archive-keyring.gpg"
        (place / "debian.list").write_text(f"deb [signed-by={key}] {mirror()} trixie main\n")
        options = ["-o", f"Dir::Etc::sourcelist={place}/debian.list", "-o", "Dir::Etc::sourceparts=/dev/null",
                   "-o", f"Dir::State::lists={place}/lists", "-o", f"Dir::Cache={place}",
                   "-o", "APT::Sandbox::User=root"]  # fmt: skip
        for words in (["update"], ["download", "docker-compose"]):
            subprocess.run(["apt-get", "-qq", *options, *words], cwd=place, check=True, timeout=300)
    (package,) = place.glob("*.deb")
    subprocess.run(["dpkg-deb", "--extract", str(package), str(place / "tree")], check=True, timeout=120)
    yield from map(str, (place / "tree/usr").glob("lib*/docker/cli-plugins/docker-compose"))


def services(engine: Engine) -> list[str]:
    """Those whose images can be had; a stand-in for Prometheus where its registry cannot be reached."""
    image = SERVICES["prometheus"]["image"]
    if not engine.pulled(image):
        engine.stand_in(image, "ca-certificates,prometheus", PROMETHEUS_STARTS)
    if engine.pulled(SERVICES["grafana"]["image"]):
        return list(SERVICES)
    print("  no registry can be reached: Grafana is left out")
    return [name for name in SERVICES if name != "grafana"]


@contextmanager
def up(engine: Engine, clone: Path) -> Iterator[tuple[Compose, list[str]]]:
    """All services that can run, built as the file has them; nothing is left of them at the end."""
    base = engine.base(re.findall(r"(?m)^ARG BASE=(.+)$", (ROOT / "Dockerfile").read_text())[0])
    chosen = services(engine)
    with tempfile.TemporaryDirectory() as folder:
        added = Path(folder) / "added.yaml"
        build = {"network": "host", "args": {"BASE": base}}
        added.write_text(json.dumps({"services": {"fabricmon": {"build": build}}}))
        compose = Compose(engine, program(), clone, added)
        began = time.monotonic()
        compose.do("build", timeout=600)
        print(f"  built in {time.monotonic() - began:.0f} s")
        try:
            compose.do("up", "--detach", "--pull", "never", *chosen)
            yield compose, chosen
        finally:
            compose.do("down", "--volumes", "--timeout", "10")
    seen("after `down` nothing is left", not engine.do("ps", "--all", "--quiet"))


def demo_plays() -> None:
    began = time.monotonic()
    wait_for("the page", lambda: fetch(f"{PAGE}/-/ready") == "ok\n")
    wait_for("an incident", lambda: fetch_json(f"{PAGE}/api/v1/incidents")["incidents"], patience=180)
    first = fetch_json(f"{PAGE}/api/v1/incidents")["incidents"][0]
    seen("the simulated fabric has an incident", True, f"{first['title']}, after {time.monotonic() - began:.0f} s")


def value(expression: str) -> float:
    found = fetch_json(f"{PROMETHEUS}/api/v1/query?query={expression}")["data"]["result"]
    return float(found[0]["value"][1]) if found else 0.0


def prometheus_scrapes() -> None:
    nodes = len(fetch_json(f"{PAGE}/api/v1/targets"))
    wait_for("Prometheus", lambda: fetch(f"{PROMETHEUS}/-/ready"))
    wait_for("all agents scraped", lambda: value('sum(up{job="fabricmon-agent"})') == nodes)
    version = fetch_json(f"{PROMETHEUS}/api/v1/status/buildinfo")["data"]["version"]
    seen("Prometheus scrapes every agent and the server", value('sum(up{job="fabricmon-central"})') == 1,
         f"{nodes} agents, Prometheus {version}")  # fmt: skip
    groups = fetch_json(f"{PROMETHEUS}/api/v1/rules")["data"]["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    seen("its recording rules are loaded and have no error", rules and not any(r.get("lastError") for r in rules),
         f"{len(rules)} rules")  # fmt: skip


def grafana_shows() -> None:
    wait_for("Grafana", lambda: fetch_json(f"{GRAFANA}/api/health")["database"] == "ok", patience=180)
    here = {path.stem for path in (ROOT / "dashboards").glob("*.json")}
    wait_for("its dashboards", lambda: len(fetch_json(f"{GRAFANA}/api/search?type=dash-db")) >= len(here))
    seen("Grafana has the dashboards", True, f"{len(here)}")


def healthy(engine: Engine, compose: Compose) -> None:
    name = compose.do("ps", "--quiet", "fabricmon")
    state = "{{.State.Health.Status}} {{.HostConfig.ReadonlyRootfs}} {{.Config.User}}"

    def look() -> str:
        found = engine.do("inspect", "--format", state, name)
        return "" if found.startswith("starting") else found

    found = wait_for("its health check", look)
    seen("healthy, read-only, as a user that is a number", found == "healthy true 65532:65532", found)


def main() -> int:
    lacks = missing()
    if lacks:
        print(f"tests.image.compose needs {lacks} (Debian: apt-get install docker.io mmdebstrap)", file=sys.stderr)
        return 2
    began = time.monotonic()
    try:
        with fresh_clone() as clone, Engine() as engine, up(engine, clone) as (compose, chosen):
            print(f"  Compose {compose.do('version', '--short')}; services {', '.join(chosen)}")
            demo_plays()
            prometheus_scrapes()
            healthy(engine, compose)
            if "grafana" in chosen:
                grafana_shows()
    except (NotSo, RuntimeError, TimeoutError) as error:
        print(f"NOT SO  {error}", file=sys.stderr)
        return 1
    print(f"all seen in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
