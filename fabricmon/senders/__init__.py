"""Senders: one module per kind of receiver. SENDERS notify, ACTING (`senders/acting.py`) act on nodes.

A module that notifies has `async send(session, config, notification, links) -> Attempt` and `REFRESH`, seconds between
two repetitions of the open incidents, 0.0 for receivers of changes; with a REFRESH also `async refresh(session, config,
standing, links) -> Attempt`. With `KEEPS = True` it gets the receipts of its earlier answers (`Attempt.receipts`), with
`ACKNOWLEDGES = True` it is notified of acknowledgements. `links` (`notify/links.py`) has the addresses of the page and
runbook of an incident.
"""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

from msgspec import Struct

from fabricmon.senders import alertmanager, email, kubernetes_node, pagerduty, slack, slurm, webhook
from fabricmon.senders.kubernetes_settings import KubernetesNodeConfig


class SenderKind(NamedTuple):
    module: ModuleType
    config: type[Struct]


SENDERS: dict[str, SenderKind] = {
    "webhook": SenderKind(webhook, webhook.WebhookConfig),
    "alertmanager": SenderKind(alertmanager, alertmanager.AlertmanagerConfig),
    "slack": SenderKind(slack, slack.SlackConfig),
    "pagerduty": SenderKind(pagerduty, pagerduty.PagerDutyConfig),
    "email": SenderKind(email, email.EmailConfig),
}

ACTING: dict[str, SenderKind] = {
    "slurm": SenderKind(slurm, slurm.SlurmConfig),
    "kubernetes_node": SenderKind(kubernetes_node, KubernetesNodeConfig),
}

CONFIGS: dict[str, type[Struct]] = {name: kind.config for name, kind in (SENDERS | ACTING).items()}
"""Kind of an entry in `senders:` -> its settings."""
