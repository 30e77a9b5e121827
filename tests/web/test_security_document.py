"""docs/security.md: its five lines make certificates, its files are taken by promtool and by us, and together they let
a server follow an agent that lets nobody else in."""

import inspect
import re
import ssl
import subprocess
import time

import aiohttp
import msgspec
import pytest
import yaml

from fabricmon import config
from fabricmon.central.streams.pull import Pull
from fabricmon.central.targets.discovery import Target
from fabricmon.commands.config import check_security
from fabricmon.runtime import door
from fabricmon.web import gate
from fabricmon.web.admission import access
from fabricmon.web.agent_links import AgentLinks
from fabricmon.web.settings import WebConfig
from tests.agent.fakes import FakeCollector, FakeSession, Running
from tests.central.streams import Sink
from tests.conftest import ROOT
from tests.web.conftest import client, until

TEXT = (ROOT / "docs/security.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", TEXT, re.M | re.S)


@pytest.fixture(scope="module")
def etc(require, tmp_path_factory):
    """What a site has in /etc/fabricmon after it followed the document."""
    require("openssl", "makes certificates")
    folder = tmp_path_factory.mktemp("etc")
    (shell,) = [text for language, text in BLOCKS if language == "sh"]
    assert len([line for line in shell.splitlines() if not line.startswith(" ")]) <= 5
    prometheus = "new prometheus DNS:prometheus\nnew reader DNS:reader\n"
    done = subprocess.run(["bash", "-euc", shell + prometheus], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    for kind in ("crt", "key"):
        (folder / f"node.{kind}").write_bytes((folder / f"node-1.{kind}").read_bytes())
    (folder / "change.token").write_text("0123456789abcdef\n")
    (folder / "prometheus.password").write_text("right\n")
    for language, text in BLOCKS:
        name = re.match(r"# /etc/fabricmon/(\S+)", text)
        if language == "yaml" and name:
            (folder / name[1]).write_text(text.replace("/etc/fabricmon", str(folder)))
    return folder


def test_certificates_sign_nothing_and_hold_for_their_names(etc):
    def tell(*words):
        return subprocess.run(["openssl", *words], cwd=etc, capture_output=True, text=True, timeout=60).stdout

    assert tell("verify", "-CAfile", "ca.crt", "node-1.crt") == "node-1.crt: OK\n"
    told = tell("x509", "-in", "node-1.crt", "-noout", "-ext", "basicConstraints,subjectAltName")
    assert "CA:FALSE" in told
    assert "DNS:node-1, DNS:node-1.example" in told


@pytest.mark.parametrize("name", ["step1.yaml", "agent.yaml", "central.yaml"])
def test_our_configuration_files_are_good(etc, name):
    root = config.load(str(etc / name))
    check_security(root)


@pytest.mark.peer
@pytest.mark.parametrize("name", ["agent-web.yaml", "central-web.yaml"])
def test_promtool_takes_the_web_configuration_files(require, etc, name):
    words = [require("promtool", "checks web configurations"), "check", "web-config", name]
    known = yaml.safe_load((etc / name).read_text())
    # a key of newer versions of that file than Debian's Prometheus of 2023 knows
    known.get("tls_server_config", {}).pop("client_allowed_sans", None)
    (etc / f"known-{name}").write_text(yaml.safe_dump(known))
    done = subprocess.run([*words[:-1], f"known-{name}"], cwd=etc, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.peer
def test_promtool_takes_the_scrape_configuration(require, etc):
    (scrape,) = [text for language, text in BLOCKS if language == "yaml" and text.startswith("scrape_configs")]
    (etc / "prometheus.yml").write_text(scrape)
    done = subprocess.run([require("promtool", "checks the example"), "check", "config", "prometheus.yml"], cwd=etc,
                          capture_output=True, text=True, timeout=60)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


async def test_the_server_follows_the_agent_and_nobody_else_gets_in(etc):
    web = config.load(str(etc / "agent.yaml")).agent.web
    central = config.load(str(etc / "central.yaml")).central
    async with Running(FakeCollector(mlx5_0=FakeSession("mlx5_0")), node="node-1", web=web) as running:
        port = running.agent.addresses[0].port
        sink = Sink()
        pull = Pull(central.pull, sink, time.time, AgentLinks(config_of(central.agents)))
        pull.follow({f"127.0.0.1:{port}": Target(f"127.0.0.1:{port}", {"node": "node-1"})})
        try:
            await until(lambda: sink.presences.get("node-1") == ("live", ""))
        finally:
            await pull.close()
        trust = client(etc / "ca.crt")
        trust.check_hostname = False
        for name, let_in in (("prometheus", True), ("reader", False), ("node-1", False)):
            trust.load_cert_chain(etc / f"{name}.crt", etc / f"{name}.key")
            assert (await reads(f"https://127.0.0.1:{port}/metrics", trust)) == let_in, name


def config_of(link):
    """The document's node has a name; here it has an address."""
    return msgspec.structs.replace(link, server_name="node-1")


async def reads(url: str, trust: ssl.SSLContext) -> bool:
    try:
        async with aiohttp.ClientSession() as http, http.get(url, ssl=trust) as answer:
            return answer.status == 200
    except (aiohttp.ClientError, ConnectionError):
        return False


@pytest.mark.parametrize("reason", [*door.REASONS, *gate.REASONS])
def test_every_reason_of_a_refusal_is_in_the_document(reason):
    limits = TEXT[TEXT.index("## Limits") : TEXT.index("## The web configuration file")]
    assert f"`{reason}`" in limits


@pytest.mark.parametrize("path", access.SCRAPED)
def test_what_who_may_scrape_gets_is_reported_wherever_the_role_is_explained(path):
    """In the table, where the setting is defined, and in the annotated configuration of the server."""
    (row,) = [line for line in TEXT.splitlines() if line.startswith("| `/metrics`")]
    (field,) = re.findall(r"^roles .*?(?=^anonymous )", inspect.cleandoc(WebConfig.__doc__), re.M | re.S)
    annotated = (ROOT / "docs/fabricmon.yaml").read_text().partition("\ncentral:\n")[2]
    (comment,) = re.findall(r"# Roles of callers: .*?(?=\n    roles:)", annotated, re.S)
    for told in (row, field, comment):
        assert re.search(rf"{path}\b", told), told
