"""From an entry below `senders:` to a receiver of the plan."""

from __future__ import annotations

import pytest

from fabricmon.model import Severity
from fabricmon.notify.settings import NotifyConfig
from fabricmon.senders import SENDERS, alertmanager, webhook
from fabricmon.senders.destination import destination
from fabricmon.units import Duration
from tests.notify.made import incident


def test_every_kind_has_what_a_destination_needs() -> None:
    for kind, (module, config) in SENDERS.items():
        assert callable(module.send), kind
        assert (module.REFRESH > 0) == hasattr(module, "refresh"), kind
        assert {"min_severity", "match", "send_resolved", "timeout"} <= set(config.__struct_fields__), kind


def test_a_receiver_has_the_routes_of_its_entry_and_the_pace_of_all() -> None:
    config = webhook.WebhookConfig("http://r/", min_severity=Severity.CRITICAL, match=("rack=r7",), send_resolved=False)
    made = destination("ops", "webhook", config, NotifyConfig(repeat=Duration(600), batch=3)).receiver
    assert (made.name, made.repeat, made.batch, made.send_resolved) == ("ops", 600.0, 3, False)
    assert made.takes(incident(severity=Severity.CRITICAL))
    assert not made.takes(incident())
    assert not made.takes(incident(severity=Severity.CRITICAL, labels={"rack": "r8"}))


def test_a_receiver_that_repeats_by_itself_is_not_repeated_to() -> None:
    made = destination("am", "alertmanager", alertmanager.AlertmanagerConfig(("http://am:9093",)))
    assert made.receiver.repeat == 0.0
    assert made.refresh_period == 60.0


@pytest.mark.parametrize("change", [{"repeat": Duration(1)}, {"retry_min": Duration(9), "retry_max": Duration(1)}])
def test_a_pace_that_makes_no_sense_is_refused(change: dict[str, Duration]) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        NotifyConfig(**change)  # type: ignore[arg-type]
