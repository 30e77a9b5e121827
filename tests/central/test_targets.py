"""Where targets come from: addresses, file_sd files, DNS, and what happens while a source is broken."""

import asyncio
import json
import os
import socket
import struct
import threading

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.resolver
import dns.rrset
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.central.targets import discovery as targets
from fabricmon.central.targets.discovery import (
    DnsSource,
    Target,
    TargetDiscovery,
    TargetError,
    TargetFile,
    merge,
    names,
    parse_address,
)
from fabricmon.central.targets.settings import DnsTargets


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("host-1", "host-1:9790"), ("host-1:80", "host-1:80"), ("10.0.0.1", "10.0.0.1:9790"),
        ("[fe80::1]:7", "[fe80::1]:7"), ("[::1]", "[::1]:9790"), ("h:1/nodes/7", "h:1/nodes/7"), ("h/p/", "h:9790/p"),
    ],
)  # fmt: skip
def test_addresses_as_people_write_them(text, address):
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "a b", "http://h:1", "h:0", "h:65536", "h:x", "::1", "[zz]:1", "u@h:1", "h:1?x"])
def test_what_is_no_address(text):
    with pytest.raises(TargetError, match=r"expected|port"):
        parse_address(text)


def test_the_expected_node_is_the_label_or_the_host():
    assert Target("host-1:9790").expected_node == "host-1"
    assert Target("[fe80::1]:9790/x").expected_node == "fe80::1"
    assert Target("10.0.0.1:9790", {"node": "host-9"}).expected_node == "host-9"


FILE = [{"targets": ["a", "b:1"], "labels": {"rack": "r1", "__meta": "x"}}, {"targets": []}]


@pytest.mark.parametrize("as_json", [True, False])
def test_a_file_sd_file(as_json):
    text = json.dumps(FILE) if as_json else "- targets: [a, 'b:1']\n  labels: {rack: r1, __meta: x}\n- targets: []\n"
    found = targets.parse_file_sd(text.encode(), "f", as_json)
    assert [(t.address, t.labels, t.source) for t in found] == [
        ("a:9790", {"rack": "r1"}, "f"), ("b:1", {"rack": "r1"}, "f"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"), ("{}", "expected a list"), ("[1]", r"\[0\]"), ('[{"targets": "a"}]', "list `targets`"),
        ('[{"targets": [1]}]', r"\[0\].targets: expected text"), ('[{"targets": ["a b"]}]', r"\[0\].targets: 'a b'"),
        ('[{"targets": [], "labels": {"a-b": "x"}}]', r"\[0\].labels"),
        ('[{"targets": [], "labels": {"a": 1}}]', r"\[0\].labels"),
    ],
)  # fmt: skip
def test_a_bad_file_says_which_group(text, said):
    with pytest.raises(TargetError, match=said):
        targets.parse_file_sd(text.encode(), "f", True)


@given(st.binary(max_size=300), st.booleans())
def test_any_file_is_read_or_refused(data, as_json):
    try:
        found = targets.parse_file_sd(data, "f", as_json)
    except TargetError:
        return
    assert all(parse_address(t.address) == t.address for t in found)


def test_the_same_address_twice_is_one_target_and_the_limit_holds():
    merged, left = merge([[Target("a:1", {"x": "1"})], [Target("a:1"), Target("b:1"), Target("c:1")]], 2)
    assert (list(merged), left) == (["a:1", "b:1"], 1)
    assert merged["a:1"].labels == {"x": "1"}


def replace(path, text):
    """As tools that write such files do: whole, by a rename."""
    path.with_suffix(".new").write_text(text)
    os.replace(path.with_suffix(".new"), path)


def test_a_file_is_read_when_it_changes_and_a_bad_one_is_an_error_until_it_is_mended(tmp_path):
    path = tmp_path / "t.json"
    replace(path, json.dumps(FILE))
    source = TargetFile(str(path))
    assert len(source.poll()) == 2
    assert source.poll() is None
    replace(path, '[{"targets": [')
    for _ in range(2):
        with pytest.raises(TargetError, match="not JSON"):
            source.poll()
    replace(path, "[]")
    assert source.poll() == []
    path.unlink()
    with pytest.raises(TargetError, match="No such file"):
        source.poll()


class Scripted:
    """A source that gives what it is told, one answer a look; the last for ever."""

    name, period = "scripted", 0.005

    def __init__(self, *answers):
        self.answers = list(answers)

    def poll(self):
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


async def test_a_source_that_fails_keeps_what_it_gave():
    told, failures = [], []
    source = Scripted([Target("a:1")], TargetError("broken"), TargetError("broken"), [Target("b:1")], None)
    found = TargetDiscovery(
        [Target("s:1")], [source], 10, lambda t: told.append(sorted(t)), lambda n, e: failures.append(e)
    )
    found.start()
    try:
        await until(lambda: told and told[-1] == ["b:1", "s:1"])
        await until(lambda: failures == ["broken", ""])
    finally:
        found.stop()
    assert told == [["s:1"], ["a:1", "s:1"], ["b:1", "s:1"]]
    assert found.states["scripted"].error == ""


async def test_a_source_that_hangs_holds_up_nobody():
    class Hanging:
        name, period = "hanging", 1.0
        release = threading.Event()

        def poll(self):
            self.release.wait()
            return []

    told = []
    found = TargetDiscovery(
        [], [Hanging(), Scripted([Target("a:1")])], 10, lambda t: told.append(sorted(t)), lambda *_: None
    )
    found.start()
    await until(lambda: told[-1] == ["a:1"])
    found.stop()
    Hanging.release.set()


async def test_a_source_that_pushes_and_raises_is_shown_and_keeps_its_targets():
    class Once:
        name = "cloud"

        async def follow(self, update):
            update([Target("node-1:9790", {})], "")
            raise OSError("it hung up")

    said, told = [], []
    found = TargetDiscovery(
        [], [], 10, lambda t: told.append(sorted(t)), lambda *why: said.append(why), [Once()])  # fmt: skip
    found.start()
    async with asyncio.timeout(20):
        while not said:
            await asyncio.sleep(0)
    found.stop()
    assert said == [("cloud", "OSError: it hung up")]
    assert told == [[], ["node-1:9790"]]
    assert found.warnings() == [
        "Targets of cloud cannot be read, the previous ones are in use: OSError: it hung up"]  # fmt: skip


async def test_a_source_that_raises_whatever_it_be_is_shown_and_asked_again():
    class Broken:
        name, period = "broken", 0.01
        answers = [RuntimeError("no idea"), [Target("a:1")]]

        def poll(self):
            answer = self.answers.pop(0) if self.answers else None
            if isinstance(answer, Exception):
                raise answer
            return answer

    told, said = [], []
    found = TargetDiscovery([], [Broken()], 10, lambda t: told.append(sorted(t)), lambda *why: said.append(why))
    found.start()
    await until(lambda: told[-1] == ["a:1"])
    found.stop()
    assert said == [("broken", "RuntimeError: no idea"), ("broken", "")]


@pytest.mark.parametrize(
    "text", ["- targets: [!!timestamp x]", "!!timestamp nothing", "- !!int x", "- !!bool x", "- {!!set {a}: 1}"]
)
def test_tags_of_yaml_are_an_error_of_the_file(text):
    with pytest.raises(TargetError):
        targets.parse_file_sd(text.encode(), "file", as_json=False)


@pytest.mark.parametrize("text", ["[" * 300_000, "- " * 300_000, "{a: " * 300_000, "&a [*a]"])
def test_a_file_that_is_nested_too_deep_is_an_error_and_not_the_end_of_the_process(text):
    with pytest.raises(TargetError, match=r"levels|stands for nothing|not YAML"):
        targets.parse_file_sd(text.encode(), "file", as_json=False)


# --- DNS


class NameServer:
    """A DNS server on loopback that cuts what it answers over UDP, and gives all over TCP."""

    def __init__(self, known):
        self.known = known  # full name -> SRV records, each (priority, weight, port, host)
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.port = self.tcp.getsockname()[1]
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", self.port))
        for serve in (self.serve_udp, self.serve_tcp):
            threading.Thread(target=serve, daemon=True).start()

    def reply(self, wire):
        question = dns.message.from_wire(wire)
        answer = dns.message.make_response(question)
        name = question.question[0].name
        records = self.known.get(name.to_text(omit_final_dot=True))
        if records is None:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        elif records:
            texts = [f"{priority} {weight} {port} {host}." for priority, weight, port, host in records]
            answer.answer.append(dns.rrset.from_text(name, 30, "IN", "SRV", *texts))
        return answer

    def serve_udp(self):
        while True:
            wire, peer = self.udp.recvfrom(2000)
            answer = self.reply(wire)
            if answer.answer:
                answer.flags |= dns.flags.TC
                answer.answer.clear()
            self.udp.sendto(answer.to_wire(), peer)

    def serve_tcp(self):
        while True:
            peer, _ = self.tcp.accept()
            with peer:
                (length,) = struct.unpack("!H", peer.recv(2))
                full = self.reply(peer.recv(length)).to_wire()
                peer.sendall(struct.pack("!H", len(full)) + full)

    def resolver(self, *search):
        found = dns.resolver.Resolver(configure=False)
        found.nameservers, found.port = ["127.0.0.1"], self.port
        found.search = [dns.name.from_text(domain) for domain in search]
        return found


def test_srv_over_udp_that_is_cut_then_tcp_with_the_search_list():
    server = NameServer({"_f._tcp.mon.example": [(2, 0, 1, "b.example"), (1, 9, 9790, "a.example"), (0, 0, 5, "")]})
    using = server.resolver("nowhere.example", "mon.example")
    found = names.services("_f._tcp", using)
    assert [(s.host, s.port) for s in found] == [("a.example", 9790), ("b.example", 1)]
    with pytest.raises(names.ResolveError, match=r"_g\._tcp\.: The DNS query name does not exist"):
        names.services("_g._tcp.", using)


def test_a_service_that_is_not_offered_is_an_error_and_no_empty_list():
    server = NameServer({"_f._tcp.mon.example": [(0, 0, 5, "")], "_e._tcp.mon.example": []})
    for name in ("_f._tcp.mon.example.", "_e._tcp.mon.example."):
        with pytest.raises(names.ResolveError, match=name.replace(".", r"\.")):
            names.services(name, server.resolver())


@pytest.mark.parametrize("name", ["a..b", "x" * 64, ".".join(["x" * 60] * 5)])
def test_what_is_no_dns_name(name):
    with pytest.raises(names.ResolveError):
        names.services(name, NameServer({}).resolver())


def test_an_address_that_dns_forgets_stays_expected_for_a_while(monkeypatch):
    now = [0.0]
    known = [["10.0.0.1", "10.0.0.2"]]
    monkeypatch.setattr(targets.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(names, "addresses", lambda name, family: known[0])
    source = DnsSource(DnsTargets("agents.example", port=7, keep=60.0))
    assert [t.address for t in source.poll()] == ["10.0.0.1:7", "10.0.0.2:7"]
    known[0] = ["10.0.0.2"]
    now[0] = 60.0
    assert [t.address for t in source.poll()] == ["10.0.0.1:7", "10.0.0.2:7"]
    now[0] = 61.0
    assert [t.address for t in source.poll()] == ["10.0.0.2:7"]


def test_addresses_of_before_a_restart_stay_expected_too(monkeypatch):
    monkeypatch.setattr(names, "addresses", lambda name, family: ["10.0.0.2"])
    source = DnsSource(DnsTargets("agents.example", port=7))
    source.expect(["10.0.0.1:7"])
    assert [t.address for t in source.poll()] == ["10.0.0.1:7", "10.0.0.2:7"]
