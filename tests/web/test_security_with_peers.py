"""Agent and server as processes with TLS and users: Prometheus, curl and our own commands get in, others do not."""

import json
import signal
import subprocess

import pytest
import yaml

from tests.host.trees import build_hca_tree
from tests.rigs.certificates import Pair
from tests.rigs.daemons import FABRICMON, Daemon, free_port, wait_for
from tests.rigs.prometheus import Prometheus
from tests.web.conftest import RIGHT

pytestmark = pytest.mark.peer


class Site:
    """An agent that asks for a password or a server's certificate over TLS, and a server that asks for users."""

    def __init__(self, folder, authority):
        self.folder, self.authority = folder, authority
        self.agent, self.central = (f"127.0.0.1:{free_port()}" for _ in range(2))
        names = "DNS:localhost,DNS:node-1,IP:127.0.0.1"
        authority.issue("node-1", names, to=Pair(folder / "node.crt", folder / "node.key"))
        client = authority.issue("fabricmon-server", "DNS:fabricmon-server")
        build_hca_tree(folder / "sys", devices=4)
        (folder / "password").write_text("right\n")
        (folder / "token").write_text("t0ken\n")
        tls = {"cert_file": "node.crt", "key_file": "node.key", "client_ca_file": str(authority.ca),
               "client_auth_type": "VerifyClientCertIfGiven"}  # fmt: skip
        self.web = folder / "web.yaml"
        self.web.write_text(yaml.safe_dump({"tls_server_config": tls, "basic_auth_users": {"prometheus": RIGHT}}))
        self.agent_config, self.central_config = folder / "agent.yaml", folder / "central.yaml"
        self.agent_config.write_text(yaml.safe_dump({"agent": {
            "listen": [self.agent], "node": "node-1", "path": {"sysfs": str(folder / "sys")},
            "web": {"token_file": str(folder / "token"), "roles": {"prometheus": "scrape"}}}}))  # fmt: skip
        self.central_config.write_text(yaml.safe_dump({"central": {
            "listen": [self.central], "state": str(folder / "state"), "targets": [self.agent],
            "token_file": str(folder / "token"), "web": {"roles": {"prometheus": "scrape"}},
            "agents": {"tls": True, "ca_file": str(authority.ca), "cert_file": str(client.cert),
                       "key_file": str(client.key), "node_names": "certificate"}}}))  # fmt: skip

    def command(self, *words, **environment):
        return subprocess.run([*FABRICMON, *map(str, words)], capture_output=True, text=True, timeout=60,
                              env={"PATH": "/usr/bin:/bin", **environment})  # fmt: skip


def curl(*words):
    done = subprocess.run(["curl", "-sS", "--max-time", "10", *map(str, words)], capture_output=True, text=True,
                          timeout=60)  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory, authority, require):
    require("curl", "is what people try first")
    folder = tmp_path_factory.mktemp("site")
    site = Site(folder, authority)
    ca = ("--cacert", authority.ca)
    agent = [*FABRICMON, "agent", "--config", site.agent_config, "--web.config.file", site.web]
    central = [*FABRICMON, "central", "--config", site.central_config, "--web-config", site.web]
    with Daemon(folder / "agent.log", agent) as first, Daemon(folder / "central.log", central) as second:
        first.wait_until("agent", lambda: curl(*ca, f"https://{site.agent}/-/ready")[1] == "ok\n")
        nodes = (*ca, "-H", "Authorization: Bearer t0ken", f"https://{site.central}/api/v1/nodes")
        second.wait_until("the node at the server", lambda: '"live"' in curl(*nodes)[1])
        site.processes = first, second
        yield site
        assert (first.stop(), second.stop()) == (0, 0), first.tail() + second.tail()


def test_prometheus_scrapes_both_over_tls_with_a_password(require, site, tmp_path):
    program = require("prometheus", "scrapes agent and central over TLS")
    let_in = {"scheme": "https", "tls_config": {"ca_file": str(site.authority.ca)},
              "basic_auth": {"username": "prometheus", "password_file": str(site.folder / "password")}}  # fmt: skip
    stranger = {"scheme": "https", "tls_config": {"ca_file": str(site.authority.ca)}}
    targets = {"agent": [site.agent], "central": [site.central], "stranger": [site.agent]}
    options = {"agent": let_in, "central": let_in, "stranger": stranger}
    with Prometheus(program, tmp_path, targets, options) as server:
        wait_for("all scraped", lambda: server.value("count(up)") == 3)
        wait_for("both up", lambda: server.value('sum(up{job!="stranger"})') == 2)
        assert server.value('up{job="stranger"}') == 0
        wait_for("the agent's ports", lambda: server.value('count(fabricmon_port_state{job="agent"})') == 4)
        refused = 'fabricmon_web_requests_refused_total{job="agent",reason="unauthenticated"}'
        wait_for("the stranger counted", lambda: (server.value(refused) or 0) > 0)
        left = 'fabricmon_web_certificate_not_after_timestamp_seconds{job="agent"} - time()'
        wait_for("a certificate that holds for a day", lambda: (server.value(left) or 0) > 86400)


def test_curl_sees_what_is_open_and_what_is_not(site):
    ca, url = ("--cacert", site.authority.ca), f"https://{site.agent}"
    code = ("-o", "/dev/null", "-w", "%{http_code}")
    assert curl(*ca, *code, f"{url}/metrics")[1] == "401"
    assert curl(*ca, *code, "-u", "prometheus:right", f"{url}/metrics")[1] == "200"
    assert curl(*ca, *code, "-u", "prometheus:right", f"{url}/")[1] == "403"
    assert curl(*ca, *code, "-u", "prometheus:wrong", f"{url}/metrics")[1] == "401"
    assert curl(*ca, *code, "-H", "Authorization: Bearer t0ken", f"{url}/")[1] == "200"
    assert curl(*ca, *code, f"{url}/-/live")[1] == "200"
    assert curl(f"{url}/-/live")[0] == 60  # who vouches for it is not known
    assert curl(f"http://{site.agent}/-/live")[0] in (52, 56)


def test_check_reaches_the_agent_of_its_node_by_the_agents_own_files(site):
    whole = yaml.safe_load(site.agent_config.read_text())
    whole["agent"]["web"]["config_file"] = str(site.web)
    config = site.folder / "whole.yaml"
    config.write_text(yaml.safe_dump(whole))
    done = site.command("check", "--config", config)
    assert "agent at " in done.stdout.splitlines()[0], done.stdout + done.stderr
    far = ("check", "--agent", f"https://{site.agent}", "--ca-file", site.authority.ca)
    done = site.command(*far, FABRICMON_TOKEN_FILE=str(site.folder / "token"))  # the server's, not an agent's
    assert (done.returncode, done.stdout) == (3, "")
    assert "refused: this needs a user and password or a bearer token or a client certificate" in done.stderr
    done = site.command(*far, "--token-file", site.folder / "token")
    assert "agent at https://" in done.stdout.splitlines()[0], done.stdout + done.stderr


def test_commands_change_things_at_a_server_that_asks_for_a_token(site):
    where = {"FABRICMON_SERVER": f"https://{site.central}", "FABRICMON_CA_FILE": str(site.authority.ca)}
    add = ("silence", "add", "kind=link_errors", "--for", "1h", "--json")
    done = site.command(*add, **where)
    assert done.returncode != 0
    assert "this needs" in done.stderr
    done = site.command(*add, FABRICMON_TOKEN_FILE=str(site.folder / "token"), **where)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


def test_security_settings_change_by_reload_without_a_lost_stream(site):
    agent, _ = site.processes
    ca, url = ("--cacert", site.authority.ca), f"https://{site.agent}"
    whole = yaml.safe_load(site.agent_config.read_text())
    code = ("-o", "/dev/null", "-w", "%{http_code}", "-u", "prometheus:right", f"{url}/")
    assert curl(*ca, *code)[1] == "403"
    whole["agent"]["web"]["roles"] = {"prometheus": "read"}
    before = site.agent_config.read_text()
    site.agent_config.write_text(yaml.safe_dump(whole))
    agent.process.send_signal(signal.SIGHUP)
    wait_for("the role", lambda: curl(*ca, *code)[1] == "200")
    site.agent_config.write_text(before)
    agent.process.send_signal(signal.SIGHUP)
    wait_for("the role before", lambda: curl(*ca, *code)[1] == "403")
    page = curl(*ca, "-u", "prometheus:right", f"{url}/metrics")[1]
    assert "\nfabricmon_streams 1\n" in page
