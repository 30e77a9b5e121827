"""Queries to a rule evaluator: `central.prometheus`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from fabricmon.senders.settings import check_headers, check_url
from fabricmon.units import Duration


class PrometheusConfig(Struct, forbid_unknown_fields=True, frozen=True):
    """The rule evaluator with the rules of `fabricmon rules export`: Prometheus, Thanos Ruler, Mimir, vmalert.

    url         base URL of its API, without /api/v1/query: "http://prometheus:9090", "https://mimir/prometheus".
    selector    label matchers of the agents' series, the same as for the export: 'job="fabric"'; "": those of `up`
                whose job begins with "fabricmon".
    node_label  the label with the name of a node; a port in it is removed.
    interval    between two queries for alerts; a rule evaluator evaluates every 15 s to a minute.
    inventory   between two queries for components; also at once after an alert stopped firing.
    stale       a rule with an older evaluation counts as not evaluated: its alerts stay.
    forget      a node that is no longer in the answers is removed after so long.
    timeout     of one query, connecting included.
    retry_max   back-off between failed queries: doubles from `interval` up to this, with 50..100 % jitter.
    max_body    bytes of one answer; 100,000 ports are about 60 MB of inventory.
    token_file  file with a bearer token; "": none.
    ca_file     CA certificates (PEM) to trust instead of the system's.
    cert_file   client certificate (PEM) and its key; "": none.
    key_file    the key, if it is not in cert_file.
    headers     further headers: {X-Scope-OrgID: fabric}.
    """

    url: str = ""
    selector: str = ""
    node_label: str = "instance"
    interval: Duration = Duration(10)
    inventory: Duration = Duration(300)
    stale: Duration = Duration(120)
    forget: Duration = Duration(86_400)
    timeout: Duration = Duration(20)
    retry_max: Duration = Duration(120)
    max_body: Annotated[int, Meta(ge=65_536, le=1 << 30)] = 134_217_728
    token_file: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    headers: dict[str, str] = {}

    def __post_init__(self) -> None:
        if self.url:
            check_url(self.url)
        check_headers(self.headers)
        if not 1 <= self.interval <= self.inventory:
            raise ValueError("`interval` must be at least 1s and not above `inventory`")
        if not 0 < self.timeout <= 300:
            raise ValueError("`timeout` must be above 0s and at most 5m")
        if self.stale <= 0 or self.forget <= 0 or self.retry_max < self.interval:
            raise ValueError("`stale` and `forget` must be above 0s, `retry_max` not below `interval`")
        if self.key_file and not self.cert_file:
            raise ValueError("`key_file` needs a `cert_file`")
