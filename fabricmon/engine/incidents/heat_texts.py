"""Words for groups whose members have bit errors, hot modules or too little light: one type of symptoms. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fabricmon.engine.incidents.group_texts import ModeText
from fabricmon.model import ComponentId, Symptom

ERRORS = "bit errors"
HEAT = "optic_degrading.heat"
BY_MEASURE: Mapping[str, str] = {HEAT: "hot modules", "optic_degrading.light": "low Rx power"}
"""Measure of a bad reading -> what the member has; members without such a reading have bit errors."""


def words_of_heat(text: ModeText, symptoms: Iterable[Symptom], warmer: float, bad: int) -> dict[str, str]:
    """`ill` and `reason` of the text of a group, by what its members show.

    warmer  degrees by which their modules are hotter than those of others, 0 not or unknown
    bad     number of members
    """
    reason = text.reason.format(bad=bad)
    if "{ill}" not in text.title:
        return {"reason": reason}
    shown = _shown(symptoms)
    sorts = [sort for sort in (ERRORS, *BY_MEASURE.values()) if shown.get(sort)] or [ERRORS]
    hot = len(shown.get(BY_MEASURE[HEAT], ()))
    if hot or warmer:
        heat = f"{hot} of their modules are too hot" if hot > 1 else "one of their modules is too hot"
        heat = heat if hot else f"their modules are {warmer:.0f} °C warmer than most"
        heat = f"{heat}, so suspect the cooling first"
        reason = heat[0].upper() + heat[1:] if reason[:1].isupper() else heat
    return {"ill": _joined(sorts), "reason": reason}


def _shown(symptoms: Iterable[Symptom]) -> dict[str, set[ComponentId]]:
    """What the members have -> these."""
    found: dict[str, set[ComponentId]] = {}
    for symptom in symptoms:
        sorts = {BY_MEASURE[e.measure] for e in symptom.evidence if e.for_it and e.measure in BY_MEASURE}
        for sort in sorts or {ERRORS}:
            found.setdefault(sort, set()).add(symptom.component)
    return found


def _joined(words: Sequence[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last
