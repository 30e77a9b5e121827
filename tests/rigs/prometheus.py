"""A real Prometheus in a throw-away directory on a free loopback port."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.rigs.daemons import Daemon, fetch, fetch_json, free_port


class Prometheus(Daemon):
    """Scrapes `targets` (job -> addresses); the first time about 5 s after it is ready.

    options   job -> further keys of its scrape configuration
    interval  seconds between two scrapes, which is also the time that one may take
    rules     groups of rules
    """

    def __init__(
        self, program: str, directory: Path, targets: Mapping[str, list[str]],
        options: Mapping[str, Mapping[str, Any]] | None = None,
        *, interval: int = 2, rules: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        (directory / "rules.yml").write_text(json.dumps({"groups": list(rules)}))
        config = {
            "global": {"scrape_interval": f"{interval}s", "scrape_timeout": f"{interval}s"},
            "rule_files": [str(directory / "rules.yml")],
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": addresses}], **(options or {}).get(job, {})}
                for job, addresses in targets.items()
            ],
        }
        path = directory / "prometheus.yml"
        path.write_text(json.dumps(config))  # JSON is YAML
        self.url, self.interval = f"http://127.0.0.1:{free_port()}", interval
        command = [
            program,
            f"--config.file={path}",
            f"--storage.tsdb.path={directory / 'tsdb'}",
            f"--web.listen-address={self.url.removeprefix('http://')}",
            "--log.level=warn",
        ]
        super().__init__(directory / "prometheus.log", command)
        self.wait_until("Prometheus", lambda: fetch(f"{self.url}/-/ready"))

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Result vector of an instant query; a scalar counts as one sample."""
        answer = fetch_json(f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': expression})}")
        data = answer["data"]
        return [{"metric": {}, "value": data["result"]}] if data["resultType"] == "scalar" else list(data["result"])

    def value(self, expression: str) -> float | None:
        """The value of a query that has one sample; None where it has none."""
        found = self.query(expression)
        return float(found[0]["value"][1]) if found else None
