"""The scenarios of the package come out as their files say.

One seed of those that take few seconds by default; FABRICMON_SCENARIOS=all runs every one of them, and
FABRICMON_SEEDS=N seeds 1 to N.
"""

from __future__ import annotations

import os

import pytest

from fabricmon.commands.scenario import own
from fabricmon.sim.scenarios.run import run
from fabricmon.simulate.scenario_file import load

QUICK = ("s01", "s03", "s05", "s09", "s11", "s12", "s14-bad-nic-link", "s18", "s20", "s25", "s26")
"""Of each kind of cause one, and the look-alikes that last minutes."""
EVERY = os.environ.get("FABRICMON_SCENARIOS") == "all"
SEEDS = range(1, 1 + int(os.environ.get("FABRICMON_SEEDS", "1")))
FILES = own()


def test_all_scenarios_of_the_catalogue_are_there() -> None:
    numbers = {path.stem.partition("-")[0] for path in FILES}
    assert numbers == {f"s{number:02}" for number in range(1, 29)}
    assert [path.stem for path in FILES] == [load(path).name for path in FILES]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("path", [p for p in FILES if EVERY or p.stem.startswith(QUICK)], ids=lambda path: path.stem)
def test_a_scenario_comes_out_as_its_file_says(path, seed: int) -> None:
    result = run(load(path), seed)
    failures = [*result.missed, *result.late, *result.wrong, *result.false]
    assert failures == [], [f"{came.kind} {came.component} {came.at:.0f} s" for came in result.incidents]
