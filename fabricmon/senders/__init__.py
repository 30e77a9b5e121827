"""Senders: one file a kind of receiver, and the table of them.

A sender module has `Config` (fields url or urls, min_severity, match, send_resolved, timeout, ...), `REFRESH`
(seconds between two sayings of what stands, 0.0 for receivers of changes) and `async send(session, config,
notification, links) -> Result`; one with a REFRESH has `async refresh(session, config, standing, links) -> Result` as
well. `links` (`notify/links.py`) has the address of an incident on the page and of the runbook of its kind.
"""

from __future__ import annotations

from types import ModuleType

from fabricmon.senders import alertmanager, webhook

SENDERS: dict[str, ModuleType] = {
    "webhook": webhook,
    "alertmanager": alertmanager,
}
