"""Streams to agents that ask for TLS, certificates, tokens and passwords; whose word is taken for a name."""

import asyncio
import contextlib
import time

import msgspec
import pytest
import yaml

from fabricmon.central.streams.pull import Pull
from fabricmon.central.streams.settings import PullConfig
from fabricmon.central.targets.discovery import Target, TargetError, parse_file_sd, parse_target
from fabricmon.config import ConfigError
from fabricmon.units import Duration
from fabricmon.web import watched
from fabricmon.web.agent_links import AgentLinks
from fabricmon.web.settings import LinkConfig, WebConfig
from tests.agent.fakes import FakeCollector, FakeSession, Running
from tests.central.streams import DIALLERS, FakeAgent, Sink, ports, until
from tests.rigs.certificates import Pair
from tests.rigs.counted import counted
from tests.web.conftest import RIGHT

QUICK = PullConfig(
    connect_timeout=Duration(2), slow_after=Duration(2), lost_after=Duration(4), retry_min=Duration(0.02),
    retry_max=Duration(0.1),
)  # fmt: skip


@pytest.fixture(params=DIALLERS, autouse=True)
def dialler(request, monkeypatch):
    """Both do the same."""
    monkeypatch.setattr("fabricmon.central.streams.pull.usual_dialler", lambda: request.param("test"))


@pytest.fixture
def often(monkeypatch):
    monkeypatch.setattr(watched, "PERIOD", 0.05)


@pytest.fixture
def web_config(tmp_path):
    def write(**content):
        path = tmp_path / "agent-web.yaml"
        path.write_text(yaml.safe_dump(content))
        return str(path)

    return write


def own(pair, **more):
    return {"cert_file": str(pair.cert), "key_file": str(pair.key), **more}


@contextlib.asynccontextmanager
async def agent(node="node-1", **web):
    async with Running(FakeCollector(mlx5_0=FakeSession("mlx5_0")), node=node, web=WebConfig(**web)) as running:
        yield running.agent.addresses[0].port, running.agent


@contextlib.asynccontextmanager
async def pulling(config, *targets):
    sink, link = Sink(), AgentLinks(config)
    pull = Pull(QUICK, sink, time.time, link)
    tasks = [asyncio.create_task(pull.run()), asyncio.create_task(link.run())]
    pull.follow({target.address: target for target in targets})
    try:
        yield sink, pull
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def at(port, node="node-1", **more):
    return Target(f"127.0.0.1:{port}", {"node": node}, **more)


async def test_a_stream_over_tls_with_certificates_on_both_sides(authority, server, web_config):
    central = authority.issue("central", "DNS:central.example")
    mutual = own(server, client_ca_file=str(authority.ca), client_auth_type="RequireAndVerifyClientCert",
                 client_allowed_sans=["central.example"])  # fmt: skip
    async with agent(config_file=web_config(tls_server_config=mutual)) as (port, _):
        shown = LinkConfig(tls=True, ca_file=str(authority.ca), cert_file=str(central.cert), key_file=str(central.key))
        async with pulling(shown, at(port)) as (sink, _):
            await until(lambda: sink.presences.get("node-1") == ("live", "") and sink.frames)
        other = authority.issue("x", "DNS:x")
        for config, presence in (
            (LinkConfig(tls=True, ca_file=str(authority.ca)),
             ("incompatible", "it ended the connection without an answer")),
            (LinkConfig(tls=True, ca_file=str(authority.ca), cert_file=str(other.cert), key_file=str(other.key)), None),
            (LinkConfig(tls=True), ("incompatible", "its certificate is not trusted: self-signed certificate in")),
            (LinkConfig(tls=True, ca_file=str(authority.ca), server_name="node-1"),
             ("incompatible", "its certificate is not trusted: hostname mismatch")),
            (LinkConfig(), ("incompatible", "it ended the connection without an answer")),
        ):  # fmt: skip
            async with pulling(config, at(port)) as (sink, pull):
                await until(lambda pull=pull: counted(pull.counts.failures) > 1)
                assert sink.frames == []
                state, said = sink.presences["node-1"]
                assert state != "live"
                if presence:
                    assert (state, said[: len(presence[1])]) == presence


@pytest.mark.parametrize("how", ["token", "password"])
async def test_a_secret_is_shown_and_changed_without_a_restart(tmp_path, web_config, often, how):
    secret, wrong = tmp_path / "secret", ("incompatible", "it refuses this server: HTTP 401 (central.agents)")
    secret.write_text("right\n")
    if how == "token":
        (tmp_path / "tokens").write_text("right\n")
        settings, shown = {"token_file": str(tmp_path / "tokens")}, LinkConfig(token_file=str(secret))
    else:
        settings = {"config_file": web_config(basic_auth_users={"central": RIGHT})}
        shown = LinkConfig(username="central", password_file=str(secret))
    async with agent(**settings) as (port, _):
        async with pulling(shown, at(port)) as (sink, _):
            await until(lambda: sink.presences.get("node-1") == ("live", ""))
        secret.write_text("wrong\n")
        async with pulling(shown, at(port)) as (sink, _):
            await until(lambda: sink.presences.get("node-1") == wrong)
            secret.write_text("right\n")
            await until(lambda: sink.presences.get("node-1") == ("live", ""))


async def test_certificates_of_both_sides_change_and_the_stream_stays(authority, tmp_path, web_config, often):
    mine, theirs = Pair(tmp_path / "c.crt", tmp_path / "c.key"), Pair(tmp_path / "s.crt", tmp_path / "s.key")

    def issue():
        authority.issue("central-2", "DNS:central", to=mine)
        authority.issue("server-2", "IP:127.0.0.1", to=theirs)

    issue()
    both = own(theirs, client_ca_file=str(authority.ca), client_auth_type="RequireAndVerifyClientCert")
    shown = LinkConfig(tls=True, ca_file=str(authority.ca), cert_file=str(mine.cert), key_file=str(mine.key))
    async with agent(config_file=web_config(tls_server_config=both)) as (port, running):
        async with pulling(shown, at(port)) as (sink, pull):
            await until(lambda: sink.presences.get("node-1") == ("live", ""))
            issue()
            await until(lambda: pull._link.watched.reloads and running._gate.watched.reloads)
            await until(lambda: pull.land() or sink.beats)
            assert counted(pull.counts.connects) == 1
        async with pulling(shown, at(port)) as (sink, _):
            await until(lambda: sink.presences.get("node-1") == ("live", ""))


async def test_some_agents_speak_tls_and_others_do_not_yet(authority, server, web_config):
    config = web_config(tls_server_config=own(server))
    async with agent("node-1", config_file=config) as (first, _), agent("node-2") as (second, _):
        shown = LinkConfig(ca_file=str(authority.ca))
        async with pulling(shown, at(first, scheme="https"), at(second, "node-2")) as (sink, _):
            await until(lambda: len(sink.presences) == 2 and set(sink.presences.values()) == {("live", "")})
        shown = LinkConfig(tls=True, ca_file=str(authority.ca))
        async with pulling(shown, at(first), at(second, "node-2", scheme="http")) as (sink, _):
            await until(lambda: len(sink.presences) == 2 and set(sink.presences.values()) == {("live", "")})


async def test_an_agent_speaks_for_its_own_node_only(authority, web_config):
    named = authority.issue("n1", "DNS:node-1.example,IP:127.0.0.1")
    config = web_config(tls_server_config=own(named))
    ca = {"tls": True, "ca_file": str(authority.ca)}
    async with agent("node-1", config_file=config) as (honest, _), agent("node-9", config_file=config) as (liar, _):
        async with pulling(LinkConfig(**ca, node_names="certificate"), at(honest), at(liar, "x")) as (sink, _):
            await until(lambda: len(sink.presences) == 2 and sink.presences["x"][0] == "incompatible")
            await until(lambda: sink.presences["node-1"] == ("live", ""))
            assert sink.presences["x"][1] == "it reports as node-9, its certificate is for node-1.example, 127.0.0.1"
            assert "node-9" not in sink.presences
        async with pulling(LinkConfig(**ca, node_names="target"), at(honest), at(liar, "node-2")) as (sink, _):
            await until(lambda: sink.presences.get("node-2", ("", ""))[0] == "incompatible")
            assert sink.presences["node-2"][1] == "it reports as node-9, its target is node-2"
            assert {node for node, _ in sink.inventories} <= {"node-1"}


def test_sweeps_are_taken_of_whom_the_site_named():
    said = "it reports 5 ports of other nodes, and central.agents.sweepers does not name it"
    for config, first, second in (
        (LinkConfig(), "", ""),
        (LinkConfig(node_names="target"), said, said),
        (LinkConfig(node_names="target", sweepers=("sm-*",)), "", said),
        (LinkConfig(sweepers=("sm-*",)), "", said),
    ):
        link = AgentLinks(config)
        assert (link.overreach("sm-1", 5), link.overreach("node-1", 5), link.overreach("node-1", 0)) == (
            first, second, "")  # fmt: skip


@pytest.mark.parametrize(("settings", "said"), [
    ({"ca_file": "/nowhere"}, "central.agents: /nowhere cannot be read: No such file"),
    ({"tls": True, "cert_file": "/nowhere"}, "central.agents: /nowhere cannot be read"),
    ({"token_file": "/nowhere"}, "central.agents.token_file: cannot be read"),
    ({"username": "a", "password_file": "/nowhere"}, "central.agents.password_file: cannot be read"),
])  # fmt: skip
def test_what_is_wrong_is_reported_before_anything_starts(settings, said):
    with pytest.raises(ConfigError, match=said):
        AgentLinks(LinkConfig(**settings))


@pytest.mark.parametrize(("settings", "said"), [
    ({"username": "a"}, "go together"), ({"key_file": "a"}, "without `cert_file`"),
    ({"username": "a", "password_file": "b", "token_file": "c"}, "not both"),
])  # fmt: skip
def test_settings_that_contradict_each_other(settings, said):
    with pytest.raises(ValueError, match=said):
        LinkConfig(**settings)


async def test_a_sweep_of_a_node_that_may_not_sweep_is_a_word_that_is_refused_not_a_fault_of_ours():
    fake = FakeAgent("node-1", part=swept_ports())
    await fake.start()
    try:
        async with pulling(LinkConfig(node_names="target"), Target(fake.address, {"node": "node-1"})) as (sink, pull):
            await until(lambda: counted(pull.counts.bad_messages) > 1)
            state, why = sink.presences["node-1"]
            assert state == "incompatible"
            assert why == "it reports 8 ports of other nodes, and central.agents.sweepers does not name it"
            assert (counted(pull.counts.failures), sink.inventories) == (0, [])
    finally:
        await fake.stop()


def swept_ports():
    made = ports()
    rows = tuple(msgspec.structs.replace(c, labels={**c.labels, "swept": "switch"}) for c in made.components)
    return msgspec.structs.replace(made, components=rows)


def test_targets_say_how_they_are_reached():
    assert parse_target("https://node-1") == Target("node-1:9790", scheme="https")
    assert parse_target("node-1:1").scheme == ""
    with pytest.raises(TargetError, match="expected http://, https://"):
        parse_target("ftp://node-1")
    (found,) = parse_file_sd(b'[{"targets": ["a"], "labels": {"__scheme__": "https", "node": "b"}}]', "f", True)
    assert (found.scheme, found.labels) == ("https", {"node": "b"})
    with pytest.raises(TargetError, match=r"\[0\].labels: __scheme__: expected http or https, got 'gopher'"):
        parse_file_sd(b'[{"targets": ["a"], "labels": {"__scheme__": "gopher"}}]', "f", True)
    assert Target("a:1").url(True) == "https://a:1/stream"
