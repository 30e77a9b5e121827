"""A server on the first host of a lab: what it and the agents beside it answer."""

from __future__ import annotations

import json
from typing import Any

import yaml

from tests.probe.lab import Lab, page, samples
from tests.rigs.daemons import FABRICMON, Daemon


class Site:
    """The server on host 0 and what it answers."""

    def __init__(self, lab: Lab, folder: Any) -> None:
        self.lab, self.config = lab, folder / "central.yaml"
        self.settings(enabled=True)
        command = (
            *FABRICMON, "central", "--config", self.config, "--listen", "127.0.0.1:9791", "--state", folder / "state",
        )  # fmt: skip
        self.server = Daemon(folder / "central.log", command, lab.inside(0))

    def settings(self, *, enabled: bool) -> None:
        targets = [f"{address}:9790" for address in self.lab.addresses]
        central = {"targets": targets, "probe": {"enabled": enabled, "dscp": 26}}
        self.config.write_text(yaml.safe_dump({"central": central}))

    def get(self, path: str) -> str:
        return page(self.lab.names[0], "127.0.0.1", 9791, path)

    def samples(self, name: str) -> list[float]:
        return samples(self.get("/metrics"), name)

    def incidents(self) -> dict[str, str]:
        found = json.loads(self.get("/api/v1/incidents"))["incidents"]
        open_ = [one for one in found if one["severity"] != "info" and one["status"] == "firing"]
        return {one["component"]: one["kind"] for one in open_}
