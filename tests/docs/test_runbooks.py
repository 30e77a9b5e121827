"""Every kind of incident has a runbook, whole and readable, and every message about an incident links to it."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from fabricmon.catalogue.kinds import KINDS
from fabricmon.central.website.runbooks import RunbookSite, on_site
from fabricmon.cli import main
from fabricmon.commands import silence as silencing
from fabricmon.commands.docs import runbooks
from fabricmon.engine.diagnosis.causes import FLOW_MODES, GRAY_MODES, MODES
from fabricmon.engine.engine import Engine
from fabricmon.engine.incidents import mismatch
from fabricmon.engine.incidents.maintenance import maintenance_draft
from fabricmon.engine.incidents.surge import KIND as MASS_ALARM
from fabricmon.model import Incident, Maintenance
from fabricmon.notify.links import IncidentLinks
from fabricmon.notify.silence import Silence, silence
from fabricmon.rules import RULES, Scope
from fabricmon.rules.limits import limits
from fabricmon.runbooks import runbook
from fabricmon.runbooks.markdown import render
from fabricmon.runtime.package_files import runbook_text
from fabricmon.senders.alertmanager import AlertmanagerConfig, alerts
from fabricmon.senders.webhook import body
from tests.engine.conftest import World
from tests.notify.made import incident, note

DOCS = Path(__file__).resolve().parents[2] / "docs" / "runbooks"


def test_every_kind_of_incident_has_exactly_one() -> None:
    window = maintenance_draft(Maintenance("m", 0.0, 1.0), (), 0)
    kinds = {rule.kind for rule in RULES} | {mode.kind for mode in (*MODES, *FLOW_MODES, *GRAY_MODES)}
    kinds |= {mismatch.KIND, MASS_ALARM, window.kind}
    assert kinds ^ set(KINDS) == set(), "a row in KINDS (fabricmon/catalogue/kinds.py) for each of them, and no other"
    texts = resources.files("fabricmon.runbooks").joinpath("text").iterdir()
    left = {entry.name.removesuffix(".md") for entry in texts} ^ kinds
    assert left == set(), "fabricmon/runbooks/text/<kind>.md for each of them, and no other"
    assert {path.stem for path in DOCS.glob("*.md")} == kinds | {"index"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_runbook_has_all_sections_in_order(kind: str) -> None:
    parts = re.split(r"^## (.*)$", runbook_text(kind), flags=re.MULTILINE)
    assert parts[0] == "", "nothing before the first heading"
    assert tuple(parts[1::2]) == runbook.SECTIONS
    assert [heading for heading, text in zip(parts[1::2], parts[2::2], strict=True) if len(text.split()) < 4] == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_limit_stands_in_it_with_its_source(kind: str) -> None:
    text = runbooks()[f"runbooks/{kind}.md"]
    for rule in runbook.rules_of(kind):
        for limit in limits(rule):
            assert f"| `rules.{rule.name}.{limit.name}` | {limit.default} | {limit.meaning} |" in text


def silences(one: Incident) -> list[Silence]:
    """What the commands of its runbook make, once a person put its names in and a shell read them."""
    section = runbooks()[f"runbooks/{one.kind}.md"].partition("## Silence it")[2]
    block = section.partition("```sh\n")[2].partition("```")[0]
    script = block.replace("INCIDENT", one.id).replace("COMPONENT", one.component)
    parser, made = argparse.ArgumentParser(), []
    silencing.add_arguments(parser)
    for line in script.splitlines():
        shell = f'fabricmon() {{ printf "%s\\0" "$@"; }}; {line}'
        words = subprocess.run(["sh", "-euc", shell], capture_output=True, text=True, timeout=60, check=True).stdout
        asked = parser.parse_args(words.split("\0")[1:-1])
        made.append(silence("s", asked.matchers, 0.0, 1.0, "mara", asked.comment))
    return made


def test_what_a_runbook_silences_by_is_the_incident_however_wide_and_no_other() -> None:
    world = World(units=2)
    world.break_links({*world.ports(world.hosts[:8], 1), (world.hosts[9], 3)})
    world.run(30)
    leaf, link = sorted(world.firing(), key=lambda i: i.kind)
    assert (leaf.kind, leaf.component) == ("fault_domain", "leaf(su0/rail1)")
    assert (link.kind, link.component) == ("link_down", "link(host-009/mlx5_3/1, leaf-1-3/10)")
    for one, other in ((leaf, link), (link, leaf)):
        made = silences(one)
        assert [(s.covers(one), s.covers(other)) for s in made] == [(True, False)] * 2


@pytest.mark.parametrize("component", ["network", "rail(su0/3)", 'plane(a b; $HOME `id` "#" \\ & *)'])
def test_a_shell_leaves_the_name_of_a_component_as_it_is(component: str) -> None:
    for kind in KINDS:
        one = incident(kind=kind, component=component, labels={})
        assert [s.covers(one) for s in silences(one)] == [True, True]


class Page(HTMLParser):
    """Checks that tags nest, and keeps the words."""

    VOID = frozenset({"meta", "link", "img", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.words = ""
        self.code = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.links.append(dict(attrs)["href"] or "")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "code" not in self.open:
            self.words += data


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_the_markup_is_left_on_the_page(kind: str) -> None:
    page = Page(render(runbooks()[f"runbooks/{kind}.md"], on_site))
    assert page.open == []
    assert re.findall(r"```|\]\(|\*\*|^#+ |<!--", page.words, re.MULTILINE) == []
    assert {link.partition("#")[0] for link in page.links} - {""} <= set(KINDS)


def test_text_is_no_markup() -> None:
    made = render('# <b>&\n\n`<i>` [<x>](javascript:alert(1)) "q"\n\n```\n<script>\n```\n', on_site)
    assert "<script>" not in made
    assert "<b>" not in made
    assert "<i>" not in made
    assert "href" not in made


async def served(
    links: IncidentLinks, *paths: str, params: dict[str, object] | None = None
) -> list[tuple[int, str, str]]:
    app = web.Application()
    RunbookSite(Engine(Scope.FLEET, None, params=params or {}), lambda: links).add_routes(app)
    async with TestClient(TestServer(app)) as client:
        found = []
        for path in paths:
            answer = await client.get(path, allow_redirects=False)
            found.append((answer.status, answer.headers.get("Location", ""), await answer.text()))
        return found


async def test_the_server_serves_them_all_and_nothing_else() -> None:
    listed, *pages = await served(IncidentLinks(), "/runbooks/", *(f"/runbooks/{kind}" for kind in KINDS))
    assert {link for link in Page(listed[2]).links if link in KINDS} == set(KINDS)
    for (status, _, text), title in zip(pages, (kind.title for kind in KINDS.values()), strict=True):
        assert status == 200
        assert "<h1 id=" in text
        assert title in text
        assert Page(text).open == []
    wrong = await served(IncidentLinks(), "/runbooks/nothing", "/runbooks/..%2fpage")
    assert [status for status, _, _ in wrong] == [404, 404]
    assert (await served(IncidentLinks(), "/runbooks"))[0][:2] == (301, "runbooks/")


async def test_limits_in_force_stand_beside_the_defaults() -> None:
    (page, source) = await served(
        IncidentLinks(), "/runbooks/link_down", "/runbooks/link_down.md", params={"link_down": {"hold": "17s"}}
    )
    assert "| `rules.link_down.hold` | 17s | 5s |" in source[2]
    assert "<td>17s</td>\n<td>5s</td>" in page[2]


async def test_a_site_with_its_own_runbooks_is_redirected_there() -> None:
    own = IncidentLinks(runbooks="https://wiki.example/fabric/{kind}.html")
    assert (await served(own, "/runbooks/incast"))[0][:2] == (302, "https://wiki.example/fabric/incast.html")


def test_every_message_about_an_incident_links_to_its_runbook() -> None:
    links = IncidentLinks("https://fabric.example/")
    assert links.runbook("link_down") == "https://fabric.example/runbooks/link_down"
    assert (
        IncidentLinks("https://fabric.example", "https://wiki.example/r/").runbook("incast")
        == "https://wiki.example/r/incast"
    )
    assert IncidentLinks().runbook("link_down") == ""
    one = incident()
    (sent,) = json.loads(body(note("k", one), links))["incidents"]
    assert sent["runbook"] == f"https://fabric.example/runbooks/{one.kind}"
    (alert,) = alerts(AlertmanagerConfig(("http://am:9093",)), note("k", one), 0.0, links)
    assert alert["annotations"]["runbook_url"] == sent["runbook"]
    assert "runbook_url" not in alerts(AlertmanagerConfig(("http://am:9093",)), note("k", one), 0.0)[0]["annotations"]


def test_exported_alerts_link_to_it(tmp_path: Path) -> None:
    config, made = tmp_path / "fabricmon.yaml", tmp_path / "rules.yml"
    config.write_text("central: {external_url: 'https://fabric.example'}\n")
    assert main(["rules", "export", "--config", str(config), "-o", str(made)]) == 0
    found = [rule for group in yaml.safe_load(made.read_text())["groups"] for rule in group["rules"] if "alert" in rule]
    assert found
    for rule in found:
        assert rule["annotations"]["runbook_url"] == f"https://fabric.example/runbooks/{rule['labels']['kind']}"
