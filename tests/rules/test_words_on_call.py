"""Texts that an engineer on call reads: what is wrong and what it does to a job, without our theory."""

from __future__ import annotations

import re

import pytest

from fabricmon.engine.incidents.mode_texts import CONFIRMED_TEXTS, TEXTS
from fabricmon.rules import RULES, Rule

WHYS = {
    **{f"rule {rule.name}": rule.why for rule in RULES},
    **{f"cause {name}": text.why for name, text in TEXTS.items()},
    **{f"confirmed {name}": text.why for name, text in CONFIRMED_TEXTS.items()},
}
LONGEST = 240
THEORY = re.compile(
    r"nats|decib|odds|probab|median|\bratio|bound|log10|statistic|penalty|evidence|symptom|hysteresis|window|flows|silent|"
    r"victim|culprit|\d%|\d %|1e-",
    re.I,
)


@pytest.mark.parametrize("name", WHYS)
def test_two_short_sentences_without_theory(name: str) -> None:
    why = WHYS[name].format(name="leaf-1", bad=3, of=8)
    assert len(re.findall(r"[.?!](?: |$)", why)) <= 2, why
    assert len(why) <= LONGEST, len(why)
    assert why.endswith(".")
    assert "{" not in why
    assert not THEORY.findall(why), why


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_says_what_happens_to_jobs(rule: Rule) -> None:
    assert re.search(r"\bjobs?\b|ports wait", rule.why, re.I), rule.why
