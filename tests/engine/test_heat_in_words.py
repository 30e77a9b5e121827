"""A group whose members have bit errors or hot modules names the heat."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricmon.engine.incidents.group_texts import GROUP_TEXTS, ModeText
from fabricmon.engine.incidents.heat_texts import words_of_heat
from fabricmon.engine.incidents.mode_texts import PARTLY_TEXTS
from fabricmon.model import ComponentId, Evidence, Kind, Severity, Symptom

LIMITS = {"heat": "optic_degrading.heat", "light": "optic_degrading.light", "errors": "link_errors.ber"}
TEXTS = [
    text for texts in (GROUP_TEXTS, PARTLY_TEXTS) for name, text in texts.items() if name.endswith("with bit errors")
]
LONGEST = 240


def symptoms(**counts: int) -> list[Symptom]:
    return [
        Symptom("rule", "link_errors", ComponentId(Kind.PORT, f"{what}-{n}", "mlx5_0/1"), Severity.WARNING, 0.0, 0.0,
                (Evidence("", "", value=1.0, limit=0.0, measure=LIMITS[what]),), {})
        for what, count in counts.items() for n in range(count)
    ]  # fmt: skip


def filled(text: ModeText, shown: list[Symptom], warmer: float, bad: int) -> tuple[str, str]:
    """Title and why."""
    words = {"name": "r12", "bad": bad, "of": 99, **words_of_heat(text, shown, warmer, bad)}
    return text.title.format(**words), text.why.format(**words)


@pytest.mark.parametrize("group", TEXTS, ids=lambda text: text.title)
@given(errors=st.integers(0, 30), heat=st.integers(0, 30), light=st.integers(0, 30))
def test_the_title_names_what_the_members_have(
    group: ModeText, errors: int, heat: int, light: int
) -> None:
    bad = errors + heat + light
    title, why = filled(group, symptoms(errors=errors, heat=heat, light=light), 0.0, bad)
    assert ("bit errors" in title) is (errors > 0 or not bad)
    assert ("hot modules" in title) is (heat > 0)
    assert ("low Rx power" in title) is (light > 0)
    assert ("too hot" in why) is (heat > 0)
    assert len(why) <= LONGEST
    assert why.count(". ") <= 1


def test_warm_air_is_in_the_why() -> None:
    title, why = filled(GROUP_TEXTS["row with bit errors"], symptoms(errors=14), 17.4, 14)
    assert title == "Hosts of row r12: 14 of 99 links with bit errors"
    assert "Their modules are 17 °C warmer than most, so suspect the cooling first; jobs" in why


def test_a_rack_with_both() -> None:
    title, why = filled(GROUP_TEXTS["rack with bit errors"], symptoms(errors=5, heat=9), 0.0, 14)
    assert title == "Hosts of rack r12: 14 of 99 links with bit errors or hot modules"
    assert "9 of their modules are too hot, so suspect the cooling first; jobs" in why


def test_links_that_are_down_are_not_down_by_their_heat() -> None:
    title, why = filled(GROUP_TEXTS["rack down"], symptoms(heat=3), 20.0, 3)
    assert title == "Hosts of rack r12: 3 of 99 links down"
    assert "One cause is more likely than 3 separate faults; jobs" in why
