"""Senders: one file a kind of receiver, and the table of them.

Two sorts: those that tell (SENDERS) and those that act (ACTING, `senders/acting.py`).

A module that tells has `Config` (fields url or urls, min_severity, match, send_resolved, timeout, ...), `REFRESH`
(seconds between two sayings of what stands, 0.0 for receivers of changes) and `async send(session, config,
notification, links) -> Result`; one with a REFRESH has `async refresh(session, config, standing, links) -> Result` as
well. One with `KEEPS = True` is also given the receipts of its earlier answers (`Result.receipts`), one with
`ACKNOWLEDGES = True` is told when somebody has taken an incident on. `links` (`notify/links.py`) has the address of an
incident on the page and of the runbook of its kind.
"""

from __future__ import annotations

from types import ModuleType

from fabricmon.senders import alertmanager, email, kubernetes_node, pagerduty, slack, slurm, webhook

SENDERS: dict[str, ModuleType] = {
    "webhook": webhook,
    "alertmanager": alertmanager,
    "slack": slack,
    "pagerduty": pagerduty,
    "email": email,
}

ACTING: dict[str, ModuleType] = {
    "slurm": slurm,
    "kubernetes_node": kubernetes_node,
}

KINDS: dict[str, ModuleType] = {**SENDERS, **ACTING}
"""Every kind that may stand below `senders:` in the configuration."""
