"""Words for groups whose members have bit errors, hot modules or too little light: one type of symptoms. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fabricmon.engine.incidents.group_texts import ModeText
from fabricmon.model import ComponentId, Symptom

ERRORS = "bit errors"
BY_MEASURE: Mapping[str, str] = {"optic_degrading.heat": "hot modules", "optic_degrading.light": "low Rx power"}
"""Measure of a bad reading -> what the member has; members without such a reading have bit errors."""
GENERAL: Mapping[str, str] = {
    "One cause is more likely than {bad} separate faults": "{Heat}: suspect the cooling first",
    "so one cause is likely": "and {heat}: suspect the cooling first",
    "the switch is faulty, not {bad} cables": "{heat}, so suspect its cooling first",
    "a part of it is faulty, or what the cables share": "{heat}, so suspect its cooling first",
    "the leaf or a part of it is faulty": "{heat}, so suspect its cooling first",
}
"""What heat takes the place of in a why -> how."""


def with_heat(text: ModeText, symptoms: Iterable[Symptom], warmer: float, bad: int) -> ModeText:
    """The text of a group with bit errors, by what its members show; others as they are.

    warmer  degrees by which their modules are hotter than those of others, 0 not or unknown
    bad     number of members, as in the text
    """
    if ERRORS not in text.title:
        return text
    shown = _shown(symptoms)
    sorts = [sort for sort in (ERRORS, *BY_MEASURE.values()) if shown.get(sort)] or [ERRORS]
    hot = len(shown.get(BY_MEASURE["optic_degrading.heat"], ()))
    why = text.why
    if hot or warmer:
        heat = f"{hot} of their modules are too hot" if hot > 1 else "one of their modules is too hot"
        heat = heat if hot else f"their modules are {warmer:.0f} °C warmer than most"
        for general, instead in GENERAL.items():
            why = why.replace(general.format(bad=bad), instead.format(heat=heat, Heat=f"{heat[0].upper()}{heat[1:]}"))
    return text._replace(title=text.title.replace(ERRORS, _joined(sorts)), why=why)


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
