"""`fabricmon doctor server` and `fabricmon support-bundle`, against a real server; no secret leaves in the bundle."""

from __future__ import annotations

import asyncio
import io
import tarfile
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fabricmon import cli, config
from fabricmon.central.documents.self_check import (
    ReceiverReading,
    ServerReadings,
    TargetReading,
    examine_server,
)
from fabricmon.commands.config import shown
from fabricmon.config.redact import HIDDEN, redacted, scrubbed, secrets_in
from tests.page.stage import Stage

GOOD = ServerReadings(
    targets=(TargetReading("central.targets", 2, ""),), nodes={"live": 2, "slow": 0}, topology="2 switches, 4 adapters",
    placed=(8, 8), receivers=(ReceiverReading("chat", 0, 0.0, 0, ""),), jobs=(("slurm", ""),), clock=0.1,
    store_error="", state="/var/lib/fabricmon", free=(50 << 30, 100 << 30), tick=(0.25, 0.01, 0.1), wait=0.05,
    warnings=(),
)  # fmt: skip


def states(read: ServerReadings) -> dict[str, str]:
    return {finding.part: finding.state for finding in examine_server(read)}


def test_a_good_server_is_ok_in_every_part() -> None:
    assert set(states(GOOD).values()) == {"ok"}


def test_at_its_limit_a_part_is_still_well() -> None:
    at_limit = GOOD._replace(clock=-1.0, free=(5 << 30, 100 << 30), wait=1.0)
    assert set(states(at_limit).values()) == {"ok"}
    assert states(GOOD._replace(free=(3 << 30, 100 << 30)))["disk"] == "partly"


@pytest.mark.parametrize(("changed", "part", "state"), [
    ({"nodes": {}, "targets": ()}, "targets", "nothing"),
    ({"nodes": {"live": 1, "unreachable": 1}}, "targets", "partly"),
    ({"topology": ""}, "topology", "nothing"),
    ({"placed": (8, 5)}, "topology", "partly"),
    ({"receivers": ()}, "receivers", "nothing"),
    ({"receivers": (ReceiverReading("chat", 3, 90.0, 4, "HTTP 500"),)}, "receivers", "failed"),
    ({"jobs": ()}, "jobs", "nothing"),
    ({"jobs": (("slurm", "no answer"),)}, "jobs", "failed"),
    ({"clock": -3.0}, "clock", "partly"),
    ({"free": None}, "disk", "failed"),
    ({"free": (4 << 30, 100 << 30)}, "disk", "partly"),
    ({"free": (2 << 30, 100 << 30)}, "disk", "failed"),
    ({"store_error": "the disk has not answered for 9 s"}, "disk", "failed"),
    ({"wait": 1.1}, "load", "partly"),
    ({"warnings": ("Silence s-1 is disabled",)}, "warnings", "failed"),
])  # fmt: skip
def test_what_is_wrong_is_named_with_what_to_do(changed: dict[str, Any], part: str, state: str) -> None:
    found = examine_server(GOOD._replace(**changed))
    assert [(one.part, one.state) for one in found if one.state != "ok"] == [(part, state)]
    assert all(one.do for one in found if one.state != "ok")


def test_a_source_of_targets_that_fails_is_named_beside_the_nodes() -> None:
    found = examine_server(GOOD._replace(targets=(*GOOD.targets, TargetReading("dns a.b", 7, "no answer"))))
    assert [(one.state, one.found) for one in found[:2]] == [
        ("failed", "dns a.b: 7"), ("ok", "2 of 2 nodes live, from central.targets, dns a.b")
    ]  # fmt: skip


async def test_a_real_server_and_its_bundle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stage = Stage(tmp_path, 16, past=60)
    stage.live_through()
    await stage.serve()
    key = tmp_path / "key"
    key.write_text("hunter22hunter22\n")
    settings = {
        "central": {"fabric": "aurora"},
        "senders": {"hook": {"kind": "webhook", "url": f"{stage.url}hooks/T0PSECRET?sig=aurora",
                             "secret_file": str(key), "headers": {"X-Auth": "hidden-header"}}},
    }  # fmt: skip
    (tmp_path / "central.yaml").write_text(yaml.safe_dump(settings))
    bundle = tmp_path / "bundle.tar.gz"
    try:
        make_bundle = ["support-bundle", "--config", str(tmp_path / "central.yaml"), "-o", str(bundle)]
        codes = [
            await asyncio.to_thread(cli.main, [*words, "--server", stage.url])
            for words in (["doctor", "server"], make_bundle)
        ]
    finally:
        await stage.__aexit__()
    said = capsys.readouterr().out
    busy = "partly  load" in said  # this machine, with the other tests
    assert codes == [int(busy), 0]
    assert "ok      topology   " in said
    assert "nothing receivers  none: no notification is sent" in said
    files = unpacked(bundle)
    assert {"version.txt", "settings.yaml", "server/overview.json", "server/doctor.json"} < set(files)
    kept = yaml.safe_load(files["settings.yaml"])["senders"]["hook"]
    assert kept["url"] == f"http://127.0.0.1:{stage.url.rsplit(':', 1)[1].rstrip('/')}/{HIDDEN}"
    assert kept["headers"] == {"X-Auth": HIDDEN}
    assert not [secret for secret in ("hunter22", "T0PSECRET", "hidden-header") if secret in "".join(files.values())]


def unpacked(bundle: Path) -> dict[str, str]:
    with tarfile.open(fileobj=io.BytesIO(bundle.read_bytes()), mode="r:gz") as archive:
        return {
            member.name.partition("/")[2]: archive.extractfile(member).read().decode()  # type: ignore[union-attr]
            for member in archive
        }


def test_a_bundle_without_a_server_says_why(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.tar.gz"
    assert cli.main(["support-bundle", "-o", str(bundle), "--server", "http://127.0.0.1:1"]) == 0
    assert "no answer from the server" in unpacked(bundle)["server/overview.error.txt"]


SECRET = st.text("ABCDEFGHJKLMNPQRSTUVWXYZ", min_size=8, max_size=20).map(lambda text: f"{text}9")


@given(st.data())
def test_no_text_of_any_setting_but_of_harmless_fields_is_shown(data: st.DataObject) -> None:
    """A secret at any place of the configuration that takes text: in plain sight, in an address, in a list."""
    tree = shown(config.load(None)) | {"senders": deepcopy(data.draw(st.sampled_from(SENDERS)))}
    secret = data.draw(SECRET)
    places = [place for place in texts(tree) if harmful(place)]
    path = data.draw(st.sampled_from(places))
    form = data.draw(st.sampled_from((
        "https://mara:{}@host:1/x", "https://host/{}", "https://host/?token={}", "Bearer {}", "{}://x",
        "http://[{}", "1{}",
    )))  # fmt: skip
    at: Any = tree
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = form.format(secret)
    assert secret.lower() not in str(redacted(tree)).lower()
    if "headers" in path or form.startswith("http"):
        log = f"POST {form.format(secret)} failed; token {secret}"
        assert secret not in scrubbed(log, frozenset(secrets_in(tree)))


SENDERS = (
    {"hook": {"kind": "webhook", "url": "https://a/b", "headers": {"X": "y"}, "only": ["kind=a"]}},
    {"am": {"kind": "alertmanager", "urls": ["https://a", "https://b"], "labels": {"site": "x"}}},
    {"mail": {"kind": "email", "server": "mx:25", "sender": "a@b.c", "to": ["d@e.f"], "user": "u"}},
)


def texts(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [found for name, item in value.items() for found in texts(item, (*path, name))]
    if isinstance(value, list):
        return [found for at, item in enumerate(value) for found in texts(item, (*path, at))]
    return [path] if isinstance(value, str) else []


def harmful(path: tuple[Any, ...]) -> bool:
    from fabricmon.config.redact import HARMLESS

    field = next(step for step in reversed(path) if isinstance(step, str))
    return field not in HARMLESS and not field.endswith("_file")
