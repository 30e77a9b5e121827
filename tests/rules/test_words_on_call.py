"""Texts that an engineer on call reads: what is wrong and what it does to a job, without our theory."""

from __future__ import annotations

import re

import pytest

from fabricmon.engine.incidents.mode_texts import CONFIRMED_TEXTS, PARTLY_TEXTS, TEXTS, control_of
from fabricmon.model import Kind
from fabricmon.rules import RULES, Rule

WHYS = {
    **{f"rule {rule.name}": rule.why for rule in RULES},
    **{f"rule {rule.name} on {layer}": text.why for rule in RULES for layer, text in rule.by_layer.items()},
    **{f"cause {name}": text.why.replace("{reason}", text.reason) for name, text in TEXTS.items()},
    **{f"confirmed {name}": text.why for name, text in CONFIRMED_TEXTS.items()},
    **{f"part {name}": text.why.replace("{reason}", text.reason) for name, text in PARTLY_TEXTS.items()},
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


NEVER = {("credits_withheld", "efa")}
"""EFA counts no wait."""
NAMES_THE_LAYER = {"telemetry_quality"}
"""Counters that are full are of InfiniBand alone."""
OF_INFINIBAND = re.compile(r"subnet manager|sminfo|ibstat|\bINIT\b|perfquery|ibdiagnet|credits", re.I)


@pytest.mark.parametrize("layer", ["ethernet", "efa"])
@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.table is Kind.PORT], ids=lambda rule: rule.name)
def test_words_about_a_port_fit_its_link_layer(rule: Rule, layer: str) -> None:
    """What only InfiniBand has is in no text of another link layer; a text that explains the word by it is general."""
    if (rule.name, layer) in NEVER or rule.name in NAMES_THE_LAYER:
        return
    text = rule.text_of([layer])
    assert not OF_INFINIBAND.search(text.why), text.why
    assert not OF_INFINIBAND.search(text.action), text.action


def test_a_text_of_several_link_layers_is_the_general_one() -> None:
    rule = next(rule for rule in RULES if rule.name == "link_down")
    general = (rule.why, rule.action)
    assert rule.text_of([]) == rule.text_of(["infiniband", "ethernet"]) == rule.text_of([""]) == general
    texts = {rule.text_of([layer]) for layer in ("infiniband", "ethernet", "efa")}
    assert len(texts) == 3
    assert general not in texts
    assert "subnet manager" in rule.text_of(["infiniband"]).why


@pytest.mark.parametrize(("layers", "control"), [
    (("infiniband",), "subnet manager"), (("ethernet",), "configuration"), ((), "subnet manager or configuration"),
    (("infiniband", "ethernet"), "subnet manager or configuration"),
])  # fmt: skip
def test_what_governs_a_rail_depends_on_its_link_layer(layers: tuple[str, ...], control: str) -> None:
    assert control_of(frozenset(layers)) == control


WHOLE = re.compile(r"\bis down\b|\brestarts\b|the switch is (down|faulty)|the switch restarted")


def test_what_claims_a_whole_component_has_words_for_a_part_of_it() -> None:
    claims = {
        name for name, text in TEXTS.items()
        if WHOLE.search(f"{text.title} {text.why}") and "losing packets" not in name and name != "NIC dead"
    }  # fmt: skip
    assert claims <= PARTLY_TEXTS.keys() <= TEXTS.keys()
    for name, text in PARTLY_TEXTS.items():
        assert not WHOLE.search(f"{text.title} {text.why}"), name
        assert "{bad} of {of}" in text.title
        assert "others" in text.why
