"""Where targets come from: addresses, file_sd files, DNS, and what happens while a source is broken."""

import asyncio
import json
import os
import socket
import struct
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.central import dns, targets
from fabricmon.central.settings import DnsTargets
from fabricmon.central.targets import Discovery, DnsSource, FileSource, Target, TargetError, merge, parse_address


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
    source = FileSource(str(path))
    assert len(source.look()) == 2
    assert source.look() is None
    replace(path, '[{"targets": [')
    for _ in range(2):
        with pytest.raises(TargetError, match="not JSON"):
            source.look()
    replace(path, "[]")
    assert source.look() == []
    path.unlink()
    with pytest.raises(TargetError, match="No such file"):
        source.look()


class Scripted:
    """A source that gives what it is told, one answer a look; the last for ever."""

    name, period = "scripted", 0.005

    def __init__(self, *answers):
        self.answers = list(answers)

    def look(self):
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


async def test_a_source_that_fails_keeps_what_it_gave():
    told, failures = [], []
    source = Scripted([Target("a:1")], TargetError("broken"), TargetError("broken"), [Target("b:1")], None)
    found = Discovery([Target("s:1")], [source], 10, lambda t: told.append(sorted(t)), lambda n, e: failures.append(e))
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

        def look(self):
            self.release.wait()
            return []

    told = []
    found = Discovery([], [Hanging(), Scripted([Target("a:1")])], 10, lambda t: told.append(sorted(t)), lambda *_: None)
    found.start()
    await until(lambda: told[-1] == ["a:1"])
    found.stop()
    Hanging.release.set()


# --- DNS


def answer(question, records, flags=0x8180, compress=True):
    """What a server says: SRV records, each (priority, weight, port, host)."""
    name = b"\xc0\x0c" if compress else question[12:-4]
    wire = question[:2] + struct.pack("!HHHHH", flags, 1, len(records), 0, 0) + question[12:]
    for priority, weight, port, host in records:
        target = b"".join(bytes([len(p)]) + p.encode() for p in host.split(".")) + b"\0" if host else b"\0"
        data = struct.pack("!HHH", priority, weight, port) + target
        wire += name + struct.pack("!HHIH", dns.SRV, dns.IN, 30, len(data)) + data
    return wire


names = st.lists(st.text("abcdefghijklmnopqrstuvwxyz0123456789-_", min_size=1, max_size=20), min_size=1, max_size=5)
u16 = st.integers(0, 65535)


@given(st.lists(st.tuples(u16, u16, st.integers(1, 65535), names.map(".".join)), max_size=8), st.booleans())
def test_srv_records_survive_the_wire(records, compress):
    question = dns.encode_question(7, "_fabricmon._tcp.example.com")
    code, found = dns.decode_answer(answer(question, records, compress=compress), question)
    assert (code, [tuple(s) for s in found]) == (0, records)


@given(st.binary(max_size=200))
def test_a_garbled_answer_is_refused(junk):
    question = dns.encode_question(7, "a.example")
    for data in (junk, question[:2] + b"\x81\x80" + junk):
        try:
            code, found = dns.decode_answer(data, question)
        except dns.DnsError:
            continue
        assert 0 <= code < 16
        assert all(0 < s.port < 65536 for s in found)


def test_a_loop_of_pointers_ends():
    question = dns.encode_question(1, "a")
    with pytest.raises(dns.DnsError, match="garbled"):
        dns.decode_answer(question[:2] + struct.pack("!HHHHH", 0x8180, 1, 0, 0, 0) + b"\xc0\x0c" + b"\0" * 4, question)


@pytest.mark.parametrize("name", ["", "a..b", "x" * 64, ".".join(["x" * 60] * 5)])
def test_what_is_no_dns_name(name):
    with pytest.raises(dns.DnsError, match="DNS name"):
        dns.encode_question(1, name)


class NameServer:
    """A DNS server on loopback that cuts what it says over UDP, and says all over TCP."""

    def __init__(self, known):
        self.known = known
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.port = self.tcp.getsockname()[1]
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", self.port))
        for serve in (self.serve_udp, self.serve_tcp):
            threading.Thread(target=serve, daemon=True).start()

    def reply(self, question):
        name = dns._name(question, 12)[0]
        if name not in self.known:
            return answer(question, [], 0x8183)
        return answer(question, self.known[name])

    def serve_udp(self):
        while True:
            question, peer = self.udp.recvfrom(2000)
            full = self.reply(question)
            cut = full[:2] + struct.pack("!H", 0x8380) + full[4:40]
            self.udp.sendto(cut if full[3] & 15 == 0 else full, peer)

    def serve_tcp(self):
        while True:
            peer, _ = self.tcp.accept()
            with peer:
                (length,) = struct.unpack("!H", peer.recv(2))
                full = self.reply(peer.recv(length))
                peer.sendall(struct.pack("!H", len(full)) + full)


def test_srv_over_udp_that_is_cut_then_tcp_with_the_search_list():
    server = NameServer({"_f._tcp.mon.example": [(2, 0, 1, "b.example"), (1, 0, 9790, "a.example"), (0, 0, 5, "")]})
    using = dns.Resolver(("127.0.0.1",), ("nowhere.example", "mon.example"), 5, server.port)
    found = dns.services("_f._tcp", using)
    assert [(s.host, s.port) for s in found] == [("a.example", 9790), ("b.example", 1)]
    with pytest.raises(dns.DnsError, match="no such name"):
        dns.services("_g._tcp.", using)


def test_resolv_conf(tmp_path):
    path = tmp_path / "resolv.conf"
    path.write_text(
        "# x\nnameserver 10.0.0.1\nnameserver ::1\nsearch a.example b.example.\noptions timeout:1 ndots:5\n"
    )
    found = dns.resolver(str(path))
    assert found == dns.Resolver(("10.0.0.1", "::1"), ("a.example", "b.example"), 5)
    assert found.candidates("x.y") == ["x.y.a.example", "x.y.b.example", "x.y"]
    assert found.candidates("x.") == ["x"]
    assert dns.resolver(str(tmp_path / "none")).servers == dns.LOCAL


def test_an_address_that_dns_forgets_stays_expected_for_a_while(monkeypatch):
    now = [0.0]
    known = [["10.0.0.1", "10.0.0.2"]]
    monkeypatch.setattr(targets.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(dns, "addresses", lambda name, family: known[0])
    source = DnsSource(DnsTargets("agents.example", port=7, keep=60.0))
    assert [t.address for t in source.look()] == ["10.0.0.1:7", "10.0.0.2:7"]
    known[0] = ["10.0.0.2"]
    now[0] = 60.0
    assert [t.address for t in source.look()] == ["10.0.0.1:7", "10.0.0.2:7"]
    now[0] = 61.0
    assert [t.address for t in source.look()] == ["10.0.0.2:7"]


def test_addresses_of_before_a_restart_stay_expected_too(monkeypatch):
    monkeypatch.setattr(dns, "addresses", lambda name, family: ["10.0.0.2"])
    source = DnsSource(DnsTargets("agents.example", port=7))
    source.expect(["10.0.0.1:7"])
    assert [t.address for t in source.look()] == ["10.0.0.1:7", "10.0.0.2:7"]
