"""Any bytes give a value or the reader's documented error: for each row of the table, many inputs that are made of
those of the corpus; `test_corpus` reads these as they are."""

from __future__ import annotations

import ast
import contextlib
from functools import cache
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fabricmon.runtime import logs
from tests.fuzz.__main__ import CORPUS, Silent
from tests.fuzz.readers import READERS

ROOT = Path(__file__).parents[2] / "fabricmon"
DECODERS = {"unpack", "unpack_from", "iter_unpack", "frombuffer", "json_value", "any_json", "loose_json",
            "json_decoder", "msgpack_value", "msgpack_decoder", "xml_root", "decompressobj", "fromisoformat",
            "strptime"}  # fmt: skip
"""Functions that make something of bytes or text from elsewhere."""

ELSEWHERE = {
    "agent.metrics.hardware": "bits of the agent's own values",
    "agent.readings.evaluation": "the agent's own values",
    "agent.probing.next_hop": "the kernel's answer on one route and one neighbour",
    "agent.probing.udp": "the kernel's structures in a control message of their size",
    "central.website.routes": "the server's own news",
    "commands.check": "an answer of the agent as one struct",
    "commands.remote": "an answer of the server as one dictionary",
    "commands.random_scenarios": "lines of the command's own results",
    "commands.replay": "a time of the command line",
    "commands.scenario": "lines of the command's own results",
    "demo": "the demo's own notifications",
    "fabric.sweep": "datagrams in bulk, whose lengths `Exchange` sets",
    "host.ethtool_statistics": "the kernel's structures in a buffer of their size",
    "host.nvml": "structures of a library in a buffer of their size",
    "host.rtnl_socket": "messages of rtnetlink, decoded by pyroute2",
    "kubernetes.client": "the text of a refusal, else shown as it came",
    "kubernetes.listwatch": "pages and events of objects that have rows",
    "recording.samples": "values of frames that were decoded",
    "senders.slack": "an answer of Slack as one dictionary",
    "sources.formats.document": "JSON of formats that have rows",
    "sources.formats.nccl": "read by `nccl_node`, which has a row",
    "senders.slurm": "an answer of slurmrestd as one dictionary",
}
"""Modules that decode and need no row, with the reason."""

PIECES = [b"9" * 30, b"-", b"0x", b"[" * 70, b"{", b"\n", b"\0", b'"', b"\\ud800", b"1e999", b"!!int ", b"*x",
          b"&x ", b"%", b"[1-99999999]", b"null", b"\xff", b"\xed\xa0\x80", b"<", b"]", b"}", b":", b",",
          b"9" * 4301]  # fmt: skip


@cache
def corpus(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]


@pytest.fixture(autouse=True)
def _quiet() -> None:
    logs.configure(level="error", stream=Silent())


def value_or_error(name: str, data: bytes) -> None:
    with contextlib.suppress(READERS[name].error):
        READERS[name].read(data)


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=30)
@example(None)
@given(st.none() | st.data())
def test_damaged_inputs_and_any_bytes(name: str, data: st.DataObject | None) -> None:
    if data is None:
        for text in (b"", b"[" * 5000, b"9" * 5000, b'{"a":' * 5000, b"\xff\xfe", b"[1-1048576]", b"\n" * 4000):
            value_or_error(name, text)
        return
    made = data.draw(st.sampled_from(corpus(name)) | st.binary(max_size=300))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(made)))
        piece = data.draw(st.sampled_from(PIECES) | st.binary(max_size=8))
        made = made[:at] + piece + made[at + data.draw(st.integers(0, 8)) :]
    value_or_error(name, made)


def decoding_modules() -> set[str]:
    found = set()
    for path in ROOT.rglob("*.py"):
        called = {
            node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call)
        }
        if called & DECODERS:
            found.add(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
    return found


def test_every_module_that_decodes_has_a_row() -> None:
    rows = {reader.module for reader in READERS.values()}
    assert decoding_modules() - rows - ELSEWHERE.keys() == set(), "give it a row in tests/fuzz/readers.py"
    assert ELSEWHERE.keys() <= decoding_modules()


def test_the_corpus_is_small_and_has_inputs_for_each_row() -> None:
    folders = {path.name for path in CORPUS.iterdir()}
    assert folders == READERS.keys()
    assert all(any(path.iterdir()) for path in CORPUS.iterdir())
    assert sum(path.stat().st_size for path in CORPUS.rglob("*")) < 1 << 20
