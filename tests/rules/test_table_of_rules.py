"""What holds for every rule of the table."""

from __future__ import annotations

import functools
import json
import math
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from fabricmon.catalogue import CATALOGUE
from fabricmon.fleet.fleet import Fleet
from fabricmon.fleet.row_state import RowState
from fabricmon.fleet.view import View
from fabricmon.model import Component, Kind, Part
from fabricmon.rules import RULES, Rule
from fabricmon.rules.limits import meanings, quantity
from fabricmon.units import Duration, Rate
from tests.fleet.site import Site
from tests.rules.bench_of_ports import Ports

EACH = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


def test_they_yield_to_rules_that_exist() -> None:
    names = [rule.name for rule in RULES]
    for rule in RULES:
        assert set(rule.yields_to) <= set(names) - {rule.name}


@EACH
def test_every_parameter_says_what_it_is_and_where_it_comes_from(rule: Rule) -> None:
    assert set(meanings(rule.params)) == {field.name for field in msgspec.structs.fields(rule.params)}


@EACH
def test_it_reads_well(rule: Rule) -> None:
    assert rule.title
    assert len(rule.decision) > 150, "characters: what is compared with which limit, and what does not count"
    assert len(rule.action) > 150, "characters: what to do, and with which command"
    assert rule.why.endswith(".")
    assert rule.decision.endswith(".")
    assert rule.action.rstrip("?").endswith((".", "right"))


@pytest.mark.parametrize(
    ("value", "text"),
    [(Duration(0), "0s"), (Duration(0.25), "250ms"), (Duration(90), "1m30s"), (Duration(90_061), "1d1h1m1s"),
     (Duration(3600), "1h"), (Rate(5e10), "400Gb/s"), (Rate(1.25e11), "1Tb/s"), (Rate(1.25e6), "10Mb/s"),
     (Rate(250), "2kb/s"), (Rate(100), "800b/s"), (0.75, "0.75"), (3, "3"), ((), "none"), ({}, "none"),
     (("a", "b"), "`a`, `b`"), ({"x": Duration(60)}, "`x: 1m`"), (msgspec.NODEFAULT, "none")],
)  # fmt: skip
def test_a_limit_in_the_words_of_the_configuration(value: object, text: str) -> None:
    assert quantity(type(value), value) == text


@EACH
def test_an_empty_table_and_an_unknown_port_are_no_fault(rule: Rule) -> None:
    fleet = Fleet()
    fleet.advance(1.0)
    assert len(rule.test(View(fleet.tables[rule.table], 1.0), rule.params()).fire) == 0
    ports = Ports(hosts=2)
    for at in ports.port.values():
        at |= dict.fromkeys(at, float("nan"))
    ports.polls(10)
    outcome = rule.test(View(ports.fleet.tables[rule.table], ports.now), rule.params())
    assert not outcome.fire.any()


@EACH
def test_a_fleet_that_every_node_has_left_is_no_fault(rule: Rule) -> None:
    site = Site()
    kinds = [kind for kind in Kind if kind is not Kind.NODE]
    site.inventory("a", *(Part("x", kind, ("state",), (Component("a/1"),), 10.0) for kind in kinds))
    site.tick(1.0)
    site.fleet.forget("a")
    site.tick(1.0)
    view = View(site.fleet.tables[rule.table], site.now)
    assert view.n == 1
    outcome = rule.test(view, rule.params())
    assert not (outcome.fire | outcome.known).any()


@EACH
def test_the_outcome_has_one_entry_a_row_and_evidence_for_any(rule: Rule) -> None:
    ports = Ports(hosts=2, nics=3)
    ports.polls(4)
    ports.fleet.forget("host-001")
    ports.silent = {1}
    ports.poll()
    view = View(ports.fleet.tables[rule.table], ports.now)
    outcome = rule.test(view, rule.params())
    for array, kind in ((outcome.fire, "b"), (outcome.clear, "b"), (outcome.known, "b"), (outcome.value, "f")):
        assert array.shape == (view.n,)
        assert array.dtype.kind == kind
    assert not (outcome.fire & outcome.clear & outcome.known).any()
    assert not outcome.known[np.flatnonzero(view.node < 0)].any()
    if not view.n:
        return  # rules of GPUs and PCIe have tests of their own
    evidence = rule.evidence(view, 0, rule.params())
    assert evidence
    assert evidence[0].text
    assert all(isinstance(value, str) for value in rule.info(view, 0, rule.params()).values())


def states(of: RowState) -> Iterator[RowState]:
    yield of
    for part in of.parts():
        yield from states(part)


@functools.cache
def any_state(kind: Kind) -> View:
    """64 rows that were read twice, some absent since, and whatever state is carried from tick to tick."""
    rng, site = np.random.default_rng(1), Site()
    columns = tuple(name for name, counter in CATALOGUE.items() if counter.kind is kind)
    labels = {"role": "compute", "link_layer": "InfiniBand", "peer": "n2/p", "owner": "r0", "port": "1"}
    named = tuple(Component(f"r{n}", labels | {"device": f"d{n}"}) for n in range(64))
    site.inventory("a", Part("x", kind, columns, named, 10.0))
    for taken in (100.0, 110.0):
        site.send("a", {(one.name, c): float(rng.integers(0, 9)) for one in named for c in columns}, taken)
        site.tick(10.0)
    table = site.fleet.tables[kind]
    for state in states(table.tracks) if isinstance(table.tracks, RowState) else ():
        for name in state.DECLARED:
            array = getattr(state, name)
            if array.dtype.kind == "f":
                array[:] = rng.choice([math.nan, 0.0, 0.5, 1.0, 9.0, site.now - 5.0, site.now], array.shape)
            elif array.dtype.kind == "b" and name not in ("swept", "hardware"):
                array[:] = rng.random(array.shape) < 0.5
    table.present[: table.n] &= rng.random(table.n) < 0.5
    return View(table, site.now)


OF_DEVICES = pytest.mark.parametrize(
    "rule", [rule for rule in RULES if rule.table is not Kind.NODE], ids=lambda rule: rule.name
)


@OF_DEVICES
def test_whatever_its_state_a_row_that_is_absent_or_not_read_is_not_known(rule: Rule) -> None:
    """A vanished adapter, and a GPU that fell off the bus, alone are the fault themselves."""
    view = any_state(rule.table)
    with np.errstate(all="ignore"):
        known = rule.test(view, rule.params()).known
        late = rule.test(View(view.table, view.now + 1e6), rule.params()).known
    assert not (known & ~view.present).any() or rule.name in ("nic_fault", "gpu_fabric")
    assert not late.any()


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_accepts_every_expression(tmp_path: Path) -> None:
    rules: list[dict[str, object]] = []
    for rule in RULES:
        said = rule.promql(rule.params())
        rules += [{"record": recording.name, "expr": recording.expr} for recording in said.recordings]
        rules += [
            {"alert": rule.name, "expr": alert.expr, "labels": {"n": str(n)}} for n, alert in enumerate(said.alerts)
        ]
    path = tmp_path / "rules.yaml"
    path.write_text(json.dumps({"groups": [{"name": "fabricmon", "rules": rules}]}))
    done = subprocess.run(["promtool", "check", "rules", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout


def test_columns_that_rules_and_tracks_take_differences_of_are_kept() -> None:
    from fabricmon.fleet import errors, link, movement

    differences = {name for group in errors.SOURCES for name in group} | set(errors.HARD) | set(movement.TRAFFIC)
    differences |= {"link_downed", "carrier_down_changes"}
    for name in differences:
        assert CATALOGUE[name].window, name
        assert CATALOGUE[name].kind is Kind.PORT
    for name in (*link.COLUMNS, "rate", "netdev_rate", "width", "sm_lid", "carrier_up_changes"):
        assert name in CATALOGUE
