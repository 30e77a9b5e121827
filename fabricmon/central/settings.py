"""Settings of the central server: `central:`."""

from __future__ import annotations

import socket
from typing import Literal

from msgspec import Struct

from fabricmon.central.jobs.settings import JobsConfig
from fabricmon.central.probing.settings import CentralProbeConfig
from fabricmon.central.prometheus.settings import PrometheusConfig
from fabricmon.central.streams.settings import PullConfig
from fabricmon.central.targets.kubernetes_settings import KubernetesConfig
from fabricmon.central.targets.settings import DnsTargets
from fabricmon.notify.links import IncidentLinks
from fabricmon.replay.settings import RecordConfig
from fabricmon.runtime.address import parse_address
from fabricmon.units import Duration
from fabricmon.web.settings import LinkConfig, WebConfig


class LinksConfig(Struct, forbid_unknown_fields=True, frozen=True):
    """Links in notifications, on the page and in exported rules.

    runbook    URL to which "/" and the kind of the incident are appended, or one with "{kind}" in it; "": the built-in
               runbooks below `external_url`.
    dashboard  URL of the Grafana with the fabricmon dashboards, or a URL with "{node}", "{component}", "{kind}" or
               "{id}" in it; "": no link.
    """

    runbook: str = ""
    dashboard: str = ""

    def __post_init__(self) -> None:
        for name, url in (("runbook", self.runbook), ("dashboard", self.dashboard)):
            if url and not url.startswith(("http://", "https://")):
                raise ValueError(f"`{name}` must be http://... or https://..., got {url!r}")


class CentralConfig(Struct, forbid_unknown_fields=True, frozen=True):
    """The central server.

    listen        addresses of page, API and /metrics: "HOST:PORT", "[::]:9791" or ":9791".
    state         directory of the database: incidents, silences, expected nodes, notifications not yet delivered.
    fabric        name of this fabric in incidents and on the page; part of incident ids, so two servers of one
                  fabric need the same name.
    name          name of this server in notifications, to distinguish two servers of one fabric; "": the name of its
                  machine.
    targets       agents as "host:port", "host" (port 9790) or "host:port/prefix"; prefix "https://" for TLS.
    target_files  files in the Prometheus file_sd format (JSON or YAML), read again when they change.
    dns           agents found by DNS name.
    kubernetes    agents found through the Kubernetes API, and locations of nodes from their labels.
    tick          evaluation period without events; at least twenty times the duration of the last tick is used. An
                  event or a changed state is evaluated at once, as far as ticks take no more than a fifth of the time.
    web           security of the listener.
    agents        security of the links to agents.
    token_file    bearer tokens that may make changes through the API, one per line; "": none. Without any security
                  settings, every client of the listener may create silences and maintenance windows.
    external_url  URL of this page for people; used in notifications.
    links         other links.
    jobs          sources of running jobs, for the affected jobs of an incident.
    probe         active probing between the adapters of agents, off by default.
    record        recording of all input, for `fabricmon replay`.
    source        source of symptoms: "agents": this server, from their streams; "prometheus": a rule evaluator
                  (Prometheus, Thanos Ruler, Mimir, vmalert) with the rules of `fabricmon rules export`; "both": the
                  rule evaluator for nodes without a stream.
    prometheus    queries to that rule evaluator.
    """

    listen: tuple[str, ...] = ("0.0.0.0:9791",)
    state: str = "/var/lib/fabricmon"
    fabric: str = ""
    name: str = ""
    targets: tuple[str, ...] = ()
    target_files: tuple[str, ...] = ()
    dns: tuple[DnsTargets, ...] = ()
    kubernetes: KubernetesConfig = KubernetesConfig()
    pull: PullConfig = PullConfig()
    tick: Duration = Duration(0.25)
    web: WebConfig = WebConfig()
    agents: LinkConfig = LinkConfig()
    token_file: str = ""
    external_url: str = ""
    links: LinksConfig = LinksConfig()
    jobs: JobsConfig = JobsConfig()
    probe: CentralProbeConfig = CentralProbeConfig()
    record: RecordConfig = RecordConfig()
    source: Literal["agents", "prometheus", "both"] = "agents"
    prometheus: PrometheusConfig = PrometheusConfig()

    def as_links(self) -> IncidentLinks:
        """The name of this server and the links of an incident."""
        name = self.name or socket.gethostname()
        return IncidentLinks(self.external_url, self.links.runbook, self.links.dashboard, name)

    def __post_init__(self) -> None:
        if self.source != "agents" and not self.prometheus.url:
            raise ValueError(f"`source` {self.source} needs `prometheus.url`")
        if not 0.05 <= self.tick <= 10:
            raise ValueError("`tick` must be between 50ms and 10s")
        if self.record.directory and self.source != "agents":
            raise ValueError("`record` needs `source: agents`: alerts of a rule evaluator are not recorded")
        if not self.listen:
            raise ValueError("`listen` names no address")
        for address in self.listen:
            try:
                parse_address(address)
            except ValueError as error:
                raise ValueError(f"`listen`: {error}") from None
        if self.external_url and not self.external_url.startswith(("http://", "https://")):
            raise ValueError(f"`external_url` must be http://... or https://..., got {self.external_url!r}")
