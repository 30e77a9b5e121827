"""Limits of settings: what stands at a limit is accepted, one step beyond it is refused by the name of its field."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Struct

from fabricmon.central.jobs.settings import JobsConfig, KubernetesJobs, SlurmJobs
from fabricmon.central.probing.settings import LEAST, LONGEST, CentralProbeConfig
from fabricmon.central.prometheus.settings import PrometheusConfig
from fabricmon.central.settings import CentralConfig, LinksConfig
from fabricmon.central.streams.settings import PullConfig
from fabricmon.central.targets.kubernetes_settings import KubernetesConfig
from fabricmon.central.targets.settings import DnsTargets
from fabricmon.notify.settings import NotifyConfig
from fabricmon.replay.settings import RecordConfig
from fabricmon.rules.gpu_fabric import GpuFabricParams
from fabricmon.rules.link_flapping import LinkFlappingParams
from fabricmon.units import Duration

URL = "http://prometheus.example"


def table(of: Callable[..., Struct], *rows: tuple[str, dict[str, Any], dict[str, Any]]) -> list[Any]:
    """Rows of (field that the refusal names, accepted values, refused values)."""
    return [pytest.param(of, *row, id=f"{getattr(of, '__name__', of)}-{number}") for number, row in enumerate(rows)]


def seconds(**fields: float) -> dict[str, Duration]:
    return {name: Duration(value) for name, value in fields.items()}


CASES = [
    *table(
        NotifyConfig,
        ("repeat", seconds(repeat=60), seconds(repeat=59)),
        ("repeat", seconds(repeat=0), seconds(repeat=1)),
        ("retry_min", seconds(retry_min=0.001), seconds(retry_min=0)),
        ("retry_max", seconds(retry_min=60, retry_max=60), seconds(retry_min=61, retry_max=60)),
        ("retry_max", seconds(retry_max=3600), seconds(retry_max=3601)),
    ),
    *table(
        JobsConfig,
        ("period", seconds(period=1), seconds(period=0.9)),
        ("deadline", seconds(deadline=0.1), seconds(deadline=0)),
        ("retry_max", seconds(retry_max=1), seconds(retry_max=0.9)),
        ("stale_after", seconds(period=30, stale_after=60), seconds(period=30, stale_after=59)),
        ("survives", seconds(survives=0.1), seconds(survives=0)),
    ),
    *table(
        SlurmJobs,
        ("command", {"command": ("squeue", "-h")}, {"command": ("squeue", "")}),
        ("url", {"url": "unix:///run/x"}, {"url": "unix://run/x"}),
        ("url", {"url": "http://s"}, {"url": "s:6820"}),
        ("url", {"command": ("squeue",)}, {"command": ("squeue",), "url": "http://s"}),
    ),
    *table(
        KubernetesJobs,
        ("api", {"api": "cluster"}, {"api": "kube"}),
        ("api", {"api": "https://k"}, {"api": "ftp://k"}),
        ("resources", {"resources": ()}, {"api": "cluster", "resources": ()}),
    ),
    *table(
        PrometheusConfig,
        ("interval", seconds(interval=1), seconds(interval=0.9)),
        ("inventory", seconds(interval=10, inventory=10), seconds(interval=10, inventory=9)),
        ("timeout", seconds(timeout=300), seconds(timeout=301)),
        ("timeout", seconds(timeout=0.1), seconds(timeout=0)),
        ("stale", seconds(stale=1), seconds(stale=0)),
        ("forget", seconds(forget=1), seconds(forget=0)),
        ("retry_max", seconds(interval=10, retry_max=10), seconds(interval=10, retry_max=9)),
        ("key_file", {"cert_file": "a", "key_file": "b"}, {"key_file": "b"}),
        ("cert_file", {"cert_file": "a"}, {"key_file": "b"}),
        ("http", {"url": URL}, {"url": "prometheus.example"}),
        ("X-Scope-OrgID", {"headers": {"X-Scope-OrgID": "a"}}, {"headers": {"X-Scope-OrgID": "a\nb"}}),
    ),
    *table(
        KubernetesConfig,
        ("api", {"api": "cluster"}, {"api": "kube"}),
        ("api", {"api": "http://k"}, {"api": ""}),
        ("selector", {"selector": "app=x"}, {"selector": ""}),
        ("deadline", seconds(deadline=0.1), seconds(deadline=0)),
        ("retry_max", seconds(retry_max=1), seconds(retry_max=0.9)),
    ),
    *table(
        DnsTargets,
        ("name", {"name": "a"}, {"name": ""}),
        ("refresh", {"name": "a"} | seconds(refresh=1), {"name": "a"} | seconds(refresh=0.9)),
    ),
    *table(
        LinksConfig,
        ("runbook", {"runbook": "https://r"}, {"runbook": "r"}),
        ("dashboard", {"dashboard": "http://d"}, {"dashboard": "ftp://d"}),
    ),
    *table(
        CentralConfig,
        ("prometheus.url", {"source": "prometheus", "prometheus": PrometheusConfig(URL)}, {"source": "prometheus"}),
        ("prometheus.url", {"source": "agents"}, {"source": "both"}),
        ("tick", seconds(tick=0.05), seconds(tick=0.049)),
        ("tick", seconds(tick=10), seconds(tick=10.1)),
        (
            "record", {"record": RecordConfig(directory="/r")},
            {"record": RecordConfig(directory="/r"), "source": "both", "prometheus": PrometheusConfig(URL)},
        ),
        ("listen", {"listen": ("[::1]:1", "h:65535")}, {"listen": ()}),
        ("listen", {"listen": ("h:1",)}, {"listen": ("h:1", "h")}),
        ("external_url", {"external_url": "https://e"}, {"external_url": "e"}),
    ),
    *table(
        PullConfig,
        ("retry_min", seconds(retry_min=0.1), seconds(retry_min=0)),
        ("retry_max", seconds(retry_min=15, retry_max=15), seconds(retry_min=15.1, retry_max=15)),
        ("slow_after", seconds(slow_after=0.1), seconds(slow_after=0)),
        ("lost_after", seconds(slow_after=5, lost_after=5.1), seconds(slow_after=5, lost_after=5)),
        ("connect_timeout", seconds(connect_timeout=0.1), seconds(connect_timeout=0)),
    ),
    *table(
        CentralProbeConfig,
        ("lasts", seconds(lasts=LEAST), seconds(lasts=LEAST - 0.1)),
        ("lasts", seconds(lasts=LONGEST), seconds(lasts=LONGEST + 1)),
    ),
    *table(
        LinkFlappingParams,
        ("clear_at", {"clear_at": 1999.0}, {"clear_at": 2000.0}),
        ("ceiling", {"ceiling": 2001.0}, {"ceiling": 2000.0}),
        ("half_life", seconds(half_life=0.1), seconds(half_life=0)),
    ),
    *table(GpuFabricParams, ("ignore", {"ignore": ("gpu_fabric_state",)}, {"ignore": ("gpu_fabric_state", "gpus")})),
]


@pytest.mark.parametrize(("of", "named", "accepted", "refused"), CASES)
def test_at_the_limit_and_beyond(
    of: Callable[..., Struct], named: str, accepted: dict[str, Any], refused: dict[str, Any]
) -> None:
    of(**accepted)
    with pytest.raises(ValueError, match=re.escape(named)):
        of(**refused)
