"""Names in the documents exist: links and anchors, keys of the configuration, flags of other people's tools."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec
import pytest
import yaml

from fabricmon import config
from fabricmon.runbooks.markdown import anchor
from tests.docs.blocks import ROOT, Block, blocks, pages

PAGES = pages()
PROSE = [page for page in PAGES if "design" not in page.parts and not page.name.startswith("write-a-")]
BLOCKS = [block for page in PAGES for block in blocks(page)]
# File names and Python names in backticks with a dot, which are not keys.
FILES = (".yaml", ".yml", ".conf", ".json", ".py", ".md", ".txt")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def place(block: Block) -> str:
    return block.place


@cache
def anchors(page: Path) -> frozenset[str]:
    """Anchors of the headings of a page, as Markdown viewers create them: a duplicate ends with -1."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    seen: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#{1,6} (.+)$", text, re.MULTILINE):
        words = anchor(re.sub(r"`|\*|\[|\]\([^)]*\)", "", heading).strip())
        found.add(f"{words}-{seen[words]}" if seen[words] else words)
        seen[words] += 1
    return frozenset(found)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in link or link.startswith("mailto:"):
            continue
        target, _, heading = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        if not path.exists() or (heading and path.suffix == ".md" and heading not in anchors(path)):
            wrong.append(link)
    assert wrong == []


def test_every_document_is_found_from_the_first_page() -> None:
    reached, todo = set(), [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page in reached or not page.exists():
            continue
        reached.add(page)
        links = re.findall(r"\]\(([^)#\s]+\.md)(?:#[^)]*)?\)", page.read_text())
        todo += [(page.parent / link).resolve() for link in links if "://" not in link]
    written = {page for page in PAGES if "docs" in page.parts and "design" not in page.parts}
    assert {name(page) for page in written - reached} == set()


def field(kind: Any, path: list[str]) -> bool:
    """Whether a struct has this key; below a mapping with names of the site any key is valid."""
    if not path:
        return True
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        known = {found.encode_name: found.type for found in msgspec.structs.fields(kind)}
        return path[0] in known and field(known[path[0]], path[1:])
    if get_origin(kind) is dict:
        return field(get_args(kind)[1], path[1:])
    return any(field(inner, path) for inner in get_args(kind))


def known(key: str) -> bool:
    """Whether a setting exists."""
    section, *path = key.split(".")
    if section in config.SECTIONS:
        return field(config.struct_of(section), path)
    rows = config.structs_of(section)
    if section == "senders":
        return len(path) < 2 or any(field(struct, path[1:]) for struct in rows.values())
    return path[0] in rows and (field(rows[path[0]], path[1:]) or path[1:] in (["hold"], ["clear"]))


@pytest.mark.parametrize("page", PROSE, ids=name)
def test_keys_of_the_configuration_exist(page: Path) -> None:
    sections = "|".join(config.ORDER)
    keys = re.findall(rf"`((?:{sections})(?:\.[a-z_][a-zA-Z0-9_]*)+)(?:[:=][^`]*)?`", page.read_text())
    assert [key for key in keys if not key.endswith(FILES) and not known(key)] == []


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "yaml"], ids=place)
def test_yaml_is_yaml_and_configurations_are_accepted(block: Block, tmp_path: Path) -> None:
    for document in yaml.safe_load_all(block.text):
        if not isinstance(document, dict) or not all(isinstance(value, dict) for value in document.values()):
            continue  # of another program: rules of Prometheus, objects of Kubernetes
        if document and set(document) <= set(config.ORDER):
            path = tmp_path / "fabricmon.yaml"
            path.write_text(yaml.safe_dump(document))
            config.load(str(path), uses=())  # files with secrets need not be here


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language in ("json", "python")], ids=place)
def test_json_and_python_can_be_read(block: Block) -> None:
    if block.language == "json":
        for text in block.text.split("\n\n"):
            json.loads(text.replace("…", ""))
    else:
        compile(block.text, block.place, "exec")


# Where the tools of `sh hardware` come from: any other word is a mistake.
TOOLS = {
    "ibstat": "infiniband-diags", "iblinkinfo": "infiniband-diags", "ibnetdiscover": "infiniband-diags",
    "ibportstate": "infiniband-diags", "ibqueryerrors": "infiniband-diags", "ibtracert": "infiniband-diags",
    "perfquery": "infiniband-diags", "sminfo": "infiniband-diags", "ibdiagnet": "NVIDIA ibutils2",
    "ib_write_bw": "perftest", "rdma": "iproute2", "ip": "iproute2", "dcb": "iproute2", "devlink": "iproute2",
    "ethtool": "ethtool", "lspci": "pciutils", "lldpctl": "lldpd", "numactl": "numactl", "nfsiostat": "nfs-common",
    "ipmitool": "ipmitool", "dmesg": "util-linux", "journalctl": "systemd", "ssh": "openssh-client", "ping": "iputils",
    "top": "procps", "curl": "curl", "cat": "coreutils", "ls": "coreutils",
    "mlxlink": "NVIDIA MFT", "mlxfwmanager": "NVIDIA MFT", "mlnx_qos": "NVIDIA OFED",
    "nvidia-smi": "NVIDIA driver", "dcgmi": "NVIDIA DCGM",
}  # fmt: skip
HELPS = ("infiniband-diags",)
"""Packages whose tools print their options without a device."""


@cache
def options(tool: str) -> str:
    path = shutil.which(tool) or shutil.which(tool, path="/usr/sbin")
    if path is None:
        return ""
    done = subprocess.run([path, "--help"], capture_output=True, text=True, timeout=120, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.hardware], ids=place)
def test_tools_for_hardware_exist_and_have_these_options(block: Block) -> None:
    wrong = []
    for line in block.text.splitlines():
        for command in re.split(r"\|", re.sub(r"(^|\s)#.*$", "", re.sub(r"'[^']*'", "''", line))):
            words = command.split()
            if not words or words[0] in ("grep", "tail", "head", "wc"):
                continue
            if words[0] not in TOOLS:
                wrong.append(f"no tool: {line}")
            elif TOOLS[words[0]] in HELPS and (known := options(words[0])):
                wrong += [f"{word}: {line}" for word in words if re.match(r"--?[a-zA-Z]", word) and word not in known]
    assert wrong == []
