"""What the centre is told by `central:` in the configuration."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from fabricmon.central.jobs_settings import JobsConfig
from fabricmon.central.kubernetes_settings import KubernetesConfig
from fabricmon.central.prometheus_settings import PrometheusConfig
from fabricmon.notify.links import Links
from fabricmon.replay.settings import RecordConfig
from fabricmon.runtime.address import parse_address
from fabricmon.units import Duration
from fabricmon.web.settings import LinkConfig, WebConfig

Port = Annotated[int, Meta(ge=1, le=65535)]


class DnsTargets(Struct, forbid_unknown_fields=True, frozen=True):
    """Agents found by name: every address behind an A/AAAA name (with `port`), or every target of an SRV name.

    keep  an address the name no longer gives stays expected that long: service discovery takes a dead node out of DNS.
    """

    name: str
    type: Literal["A", "AAAA", "SRV"] = "A"
    port: Port = 9790
    refresh: Duration = Duration(30)
    keep: Duration = Duration(3600)

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("`name` is empty")
        if self.refresh < 1:
            raise ValueError("`refresh` is below 1s")


class PullConfig(Struct, forbid_unknown_fields=True, frozen=True):
    """How the centre keeps one stream to each agent.

    connect_timeout  for the TCP connection and the WebSocket handshake together.
    slow_after       without a frame that long the agent is slow; agents send one at least every second.
    lost_after       without a frame that long the stream is closed and opened anew.
    retry_min/max    back-off between attempts at one agent: doubles from min to max, each with 50..100 % jitter.
    connecting       attempts under way at one time; 10,000 agents after a restart of the centre take their turn.
    max_targets      targets beyond it are refused and counted, so a broken discovery cannot use up the machine.
    max_message      bytes of one message of an agent; a full frame of 100,000 values has 800,000.
    """

    connect_timeout: Duration = Duration(3)
    slow_after: Duration = Duration(5)
    lost_after: Duration = Duration(15)
    retry_min: Duration = Duration(0.5)
    retry_max: Duration = Duration(15)
    connecting: Annotated[int, Meta(ge=1, le=4096)] = 128
    max_targets: Annotated[int, Meta(ge=1, le=100_000)] = 20_000
    max_message: Annotated[int, Meta(ge=65_536, le=67_108_864)] = 16_777_216

    def __post_init__(self) -> None:
        if not 0 < self.retry_min <= self.retry_max:
            raise ValueError("`retry_min` must be above 0 and not above `retry_max`")
        if not 0 < self.slow_after < self.lost_after:
            raise ValueError("`slow_after` must be above 0 and below `lost_after`")
        if self.connect_timeout <= 0:
            raise ValueError("`connect_timeout` must be above 0")


class LinksConfig(Struct, forbid_unknown_fields=True, frozen=True):
    """Where links in notifications, on the page and in exported rules lead.

    runbook    what to do about an incident: an address to which "/" and the incident's kind are added, or one with
               "{kind}" in it; "": the centre's own runbooks below `external_url`.
    dashboard  the readings around an incident: Grafana's address, where our dashboards are loaded, or an address with
             "{node}", "{component}", "{kind}" or "{id}" in it; "": no such link.
    """

    runbook: str = ""
    dashboard: str = ""

    def __post_init__(self) -> None:
        for name, url in (("runbook", self.runbook), ("dashboard", self.dashboard)):
            if url and not url.startswith(("http://", "https://")):
                raise ValueError(f"`{name}` must be http://... or https://..., got {url!r}")


class CentralConfig(Struct, forbid_unknown_fields=True, frozen=True):
    """The centre.

    listen        addresses of page, API and /metrics: "HOST:PORT", "[::]:9791" or ":9791".
    state         directory of the database: incidents, silences, expected nodes, notifications not yet delivered.
    fabric        name of this fabric in incidents and on the page; part of incident ids, so two centres of one
                  fabric must agree on it.
    targets       agents as "host:port", "host" (port 9790) or "host:port/prefix"; "https://" before it for TLS.
    target_files  files in the Prometheus file_sd format (JSON or YAML), read again when they change.
    dns           agents found by DNS name.
    kubernetes    agents found through the Kubernetes API, and where nodes stand by their labels.
    tick          shortest period of judging; the centre takes five times its own last tick where that is longer.
    web           security of the listener.
    agents        security of the links to agents.
    token_file    bearer tokens that may change things through the API, one a line; "": none. Without any security
                  everyone who reaches the listener may silence and announce maintenance.
    external_url  how people reach this page; put into notifications.
    links         where other links lead.
    jobs          who knows which jobs run, to tell whom an incident hits.
    record        whether everything that comes in is recorded, for `fabricmon replay`.
    source        who judges: "agents": this centre, by their streams; "prometheus": a ruler that evaluates what
                  `fabricmon rules export` wrote; "both": the ruler for nodes that no stream tells of.
    prometheus    how that ruler is asked.
    """

    listen: tuple[str, ...] = ("0.0.0.0:9791",)
    state: str = "/var/lib/fabricmon"
    fabric: str = ""
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
    record: RecordConfig = RecordConfig()
    source: Literal["agents", "prometheus", "both"] = "agents"
    prometheus: PrometheusConfig = PrometheusConfig()

    def as_links(self) -> Links:
        """What links are made of."""
        return Links(self.external_url, self.links.runbook, self.links.dashboard)

    def __post_init__(self) -> None:
        if self.source != "agents" and not self.prometheus.url:
            raise ValueError(f"`source` {self.source} needs `prometheus.url`")
        if self.source != "agents" and self.record.directory:
            raise ValueError("`record` keeps what agents send; with a ruler as `source` there is no recording")
        if not 0.05 <= self.tick <= 10:
            raise ValueError("`tick` must be between 50ms and 10s")
        if self.record.directory and self.source != "agents":
            raise ValueError("`record` needs `source: agents`: what a ruler says is not recorded")
        if not self.listen:
            raise ValueError("`listen` names no address")
        for address in self.listen:
            try:
                parse_address(address)
            except ValueError as error:
                raise ValueError(f"`listen`: {error}") from None
        if self.external_url and not self.external_url.startswith(("http://", "https://")):
            raise ValueError(f"`external_url` must be http://... or https://..., got {self.external_url!r}")
