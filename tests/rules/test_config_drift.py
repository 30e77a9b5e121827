"""config_drift: ports of one rail whose settings differ, what is named, and what is left in peace."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fabricmon.catalogue.qos import COMPARED
from fabricmon.collect.qos import fingerprint
from fabricmon.fleet.fleet import Fleet
from fabricmon.fleet.view import View
from fabricmon.frame import Frame
from fabricmon.model import Component, Identity, Inventory, Kind, Part, Severity
from fabricmon.rules import RULES
from fabricmon.rules.config_drift import RULE, WORDS, drift
from fabricmon.topology.domains import assign

USUAL = {column: float(n) for n, column in enumerate(COMPARED, 1)} | {"pfc_enabled": 8.0, "qos_mtu": 4200.0}
COLUMNS = (*COMPARED, "qos_fingerprint")


class Rails:
    """`hosts` hosts of `nics` ports with settings; `set` changes some of them."""

    def __init__(self, hosts: int = 6, nics: int = 2) -> None:
        self.fleet, self.now, self.nics = Fleet(), 1_700_000_000.0, nics
        self.settings = {(h, n): dict(USUAL) for h in range(hosts) for n in range(nics)}
        self.inventories = {}
        for host in range(hosts):
            same = {"port": "1", "link_layer": "Ethernet", "role": "compute"}
            ports = tuple(Component(f"mlx5_{n}/1", {"device": f"mlx5_{n}"} | same) for n in range(nics))
            identity = Identity(f"h{host}", "boot", f"a{host}", "1", 1.0)
            self.inventories[host] = Inventory(1, identity, (Part("qos", Kind.PORT, COLUMNS, ports, 120.0),))
            self.fleet.inventory(f"h{host}", self.inventories[host], self.now)
        self.table = self.fleet.tables[Kind.PORT]
        self.table.domains = assign(None, list(zip(self.table.ids, self.table.labels, strict=True)), {})
        self.send()

    def send(self, seconds: float = 120.0, silent: tuple[int, ...] = ()) -> None:
        self.now += seconds
        for host in self.inventories:
            if host in silent:
                continue
            values = []
            for nic in range(self.nics):
                of = self.settings[host, nic]
                values += [*(of[c] for c in COMPARED), of.get("all", fingerprint(of[c] for c in COMPARED))]
            assert self.fleet.frame(
                f"h{host}", Frame(1, 1, self.now, np.array([self.now]), None, np.array(values)), self.now
            )
        self.fleet.advance(self.now)

    def view(self) -> View:
        return View(self.table, self.now)

    def fires(self, **params: object) -> set[str]:
        outcome = RULE.test(self.view(), RULE.params(**params))
        return {str(self.table.ids[row]) for row in np.flatnonzero(outcome.fire & outcome.known)}


def test_it_is_in_the_table_and_every_setting_has_a_word() -> None:
    assert RULE in RULES
    assert set(WORDS) == set(COMPARED)


def test_ports_that_agree_are_known_and_well() -> None:
    rails = Rails()
    outcome = RULE.test(rails.view(), RULE.params())
    assert outcome.known.all()
    assert outcome.clear.all()


@pytest.mark.parametrize("column", COMPARED)
def test_each_setting_alone_is_noticed_and_named(column: str) -> None:
    rails = Rails()
    rails.settings[4, 1][column] += 7
    rails.send()
    assert rails.fires() == {"h4/mlx5_1/1"}
    row = next(r for r, c in enumerate(rails.table.ids) if str(c) == "h4/mlx5_1/1")
    (one,) = RULE.evidence(rails.view(), row, RULE.params())
    assert WORDS[column] in one.text
    assert (one.value, one.limit) == (rails.settings[4, 1][column], USUAL[column])
    assert RULE.info(rails.view(), row, RULE.params()) == {"differs": WORDS[column]}


def test_what_loses_packets_is_a_warning_the_rest_is_reported() -> None:
    rails = Rails()
    rails.settings[0, 0]["pfc_enabled"] = 0.0
    rails.settings[1, 0]["dcbx_mode"] = 99.0
    rails.send()
    severity = RULE.test(rails.view(), RULE.params()).severity
    assert severity is not None
    assert severity[0] == Severity.WARNING.rank
    assert severity[2] == Severity.INFO.rank
    assert "priority flow control: off here, on priority 3 on most ports" in RULE.evidence(
        rails.view(), 0, RULE.params())[0].text  # fmt: skip


def test_rails_may_differ_from_each_other() -> None:
    rails = Rails()
    for host in range(6):
        rails.settings[host, 1]["pfc_enabled"] = 16.0
    rails.send()
    assert rails.fires() == set()


def test_without_a_majority_or_with_too_few_ports_nothing_is_known() -> None:
    rails = Rails(hosts=6, nics=1)
    for host in (0, 1, 2):
        rails.settings[host, 0]["qos_mtu"] = 1500.0
    rails.send()
    assert not drift(rails.view(), RULE.params()).known.any()
    assert not drift(Rails(hosts=2).view(), RULE.params()).known.any()


@pytest.mark.parametrize("odd", [(0,), (5,), (0, 5), (2, 3)])
def test_the_majority_is_found_wherever_the_odd_ones_are(odd: tuple[int, ...]) -> None:
    rails = Rails(hosts=6, nics=1)
    for host in odd:
        rails.settings[host, 0]["qos_mtu"] = 1500.0 + host
    rails.send()
    assert rails.fires() == {f"h{host}/mlx5_0/1" for host in odd}


def test_what_an_adapter_does_not_tell_is_not_compared() -> None:
    rails = Rails()
    for column in ("ets_fingerprint", "buffer_fingerprint"):
        rails.settings[3, 0][column] = math.nan
    rails.settings[2, 0]["all"] = math.nan  # its settings could not be read as a whole
    rails.send()
    assert rails.fires() == set()
    known = RULE.test(rails.view(), RULE.params()).known
    assert not known[4]
    assert known[6]


def test_old_settings_are_not_evaluated() -> None:
    rails = Rails(nics=1)
    rails.settings[0, 0]["pfc_enabled"] = 0.0
    rails.send()
    for _ in range(4):
        rails.send(silent=(0,))
    assert rails.fires() == set()
