"""A few random faults on one fabric, so that the accuracy command keeps working; it does many of them itself."""

from __future__ import annotations

from tests.accuracy.fabrics import build
from tests.accuracy.score import measure
from tests.accuracy.table import document


def test_random_faults_are_found_and_beat_voting() -> None:
    scores = measure(build("fat tree, 3 tiers", 3), "L2", 12, 3)
    ours = [score for score in scores if score.method == "noisy-OR"]
    assert sum(s.right for s in ours) >= 0.95 * sum(s.told for s in ours)
    assert sum(s.found for s in ours) >= 0.9 * sum(s.faults for s in ours)
    votes = [score for score in scores if score.method == "voting"]
    assert sum(s.found for s in votes) < sum(s.found for s in ours)
    assert "| fat tree, 3 tiers | noisy-OR |" in document(scores, 12, 3)
