"""Who adds a rule, a cause, a kind or a counter and leaves a piece out learns at import which, and where it goes."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path

import pytest

from fabricmon import catalogue, rules
from fabricmon.catalogue import kinds, pcie
from fabricmon.catalogue.kinds import FOREIGN, KINDS, Acting, Inhibits, kind_of
from fabricmon.engine.diagnosis import causes
from fabricmon.engine.diagnosis.causes import MODES
from fabricmon.engine.incidents.incident_draft import sharper
from fabricmon.rules import link_down
from fabricmon.runtime.package_files import runbook_text

TABLE = Path(kinds.__file__)
NO_ROW = r"kind 'link_gone' has no row in KINDS \(fabricmon/catalogue/kinds.py\)"


def imported(path: Path, folder: Path, old: str, new: str) -> dict[str, object]:
    """What comes of importing a file in which somebody changed the first of something."""
    text = path.read_text()
    assert old in text
    changed = folder / path.name
    changed.write_text(text.replace(old, new, 1))
    return runpy.run_path(str(changed))


def test_a_rule_of_a_kind_without_a_row_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"rule 'link_gone': {NO_ROW}"):
        imported(Path(link_down.__file__), tmp_path, 'name="link_down"', 'name="link_gone"')


def test_so_is_a_mode_of_the_diagnosis() -> None:
    with pytest.raises(ValueError, match=f"mode 'cable or optic down': {NO_ROW}"):
        replace(MODES[0], kind="link_gone")


def test_a_rule_of_a_kind_that_nothing_tells_of_is_refused() -> None:
    with pytest.raises(ValueError, match="rule 'link_down': kind 'fault_domain' needs a symptom type or a notice"):
        replace(link_down.RULE, kind="fault_domain")


def test_a_kind_whose_symptoms_no_mode_shows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"kind 'incast': no mode of engine/diagnosis/causes\.py shows INCAST"):
        imported(Path(causes.__file__), tmp_path, "{T.INCAST: 0.95}", "{T.CONGESTION: 0.95}")


def test_a_symptom_type_without_words_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"WORDS of engine/diagnosis/causes\.py lacks INCAST"):
        imported(Path(causes.__file__), tmp_path, '    T.INCAST: "incast",\n', "")


def test_what_traffic_elsewhere_explains_is_slow_and_no_more() -> None:
    """Lost packets and congestion of another part stop no part, and set nothing."""
    of_traffic = [kind for kind in KINDS.values() if kind.elsewhere]
    assert {kind.effect for kind in of_traffic} == {kinds.Effect.SLOW}
    assert {"packet_loss", "congestion"} <= {kind.name for kind in of_traffic}



@pytest.mark.parametrize("field", ["title", "symptom", "notice", "order", "effect", "offence", "acting", "inhibits"])
def test_no_field_of_a_row_has_a_default(field: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{field}_left_out'"):
        imported(TABLE, tmp_path, f" {field}=", f" {field}_left_out=")
    row = {name: getattr(FOREIGN, name) for name in kinds.IncidentKind.__slots__ if name != field}
    with pytest.raises(TypeError, match=f"missing 1 required keyword-only argument: '{field}'"):
        kinds.IncidentKind(**row)


def test_a_kind_that_stands_twice_fails_at_import(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'link_down' stands twice in KINDS \(fabricmon/catalogue/kinds.py\)"):
        imported(TABLE, tmp_path, 'name="link_flapping"', 'name="link_down"')


def test_a_counter_that_stands_twice_fails_at_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pcie, "COUNTERS", (*pcie.COUNTERS, pcie.COUNTERS[0]))
    name = pcie.COUNTERS[0].name
    with pytest.raises(ValueError, match=rf"'{name}' stands twice in CATALOGUE \(fabricmon/catalogue/\)"):
        runpy.run_path(catalogue.__file__)


def test_a_rule_that_stands_twice_fails_at_import(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'link_down' stands twice in RULES \(fabricmon/rules/__init__.py\)"):
        imported(Path(rules.__file__), tmp_path, "    link_down.RULE,\n", "    link_down.RULE,\n" * 2)


def test_a_kind_without_a_runbook_is_an_error_with_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "link_gone", replace(KINDS["link_down"], name="link_gone"))
    with pytest.raises(FileNotFoundError, match=r"runbooks/text/link_gone\.md"):
        runbook_text("link_gone")


def test_no_two_kinds_have_one_place_in_a_family() -> None:
    places = [(family, place) for kind in KINDS.values() for family, place in kind.order.items()]
    assert len(places) == len(set(places))


def test_a_kind_changes_upwards_within_its_family_only() -> None:
    assert sharper("link", "link_down", "link_flapping")
    assert not sharper("link", "link_flapping", "link_down")
    assert sharper("host", "link_down", "host_unreachable")
    assert sharper("leaf", "fault_domain", "storage_path"), "a family without an order"
    assert not sharper("leaf", "fault_domain", "fault_domain")


def test_what_another_version_stored_is_never_acted_on_and_holds_nothing_back() -> None:
    kind = kind_of("of_tomorrow")
    assert (kind.acting, kind.inhibits, kind.offence, kind.cooling) == (Acting.UNKNOWING, Inhibits.NOTHING, False, 0.0)
