"""Acting sender `slurm`: drains the node of an incident, and resumes it when that is allowed and the incident is over.

A drain ends nothing: jobs that run there go on, no new ones begin. A node that somebody else drained is left as it is;
a node whose reason somebody changed is theirs from then on. Before each change the node is looked at once more, and
after it, whether it is so.
"""

from __future__ import annotations

from typing import Protocol
from urllib.parse import quote

import aiohttp
import msgspec

from fabricmon.model import Incident
from fabricmon.notify.acting import Deed, Held, decide
from fabricmon.notify.links import NO_LINKS, Links
from fabricmon.runtime.command import CommandError, output
from fabricmon.senders.acting import ActingConfig, Diary, Report, Standing, past
from fabricmon.senders.post import USER_AGENT, read_secret, tls_by
from fabricmon.senders.slurm_nodes import SlurmNode, by_our_names, from_json, from_text, reason_of

VERSIONS = tuple(f"v0.0.{number}" for number in range(45, 38, -1))
"""Versions of slurmrestd that can change a node, the newest first."""
MAX_ANSWER = 64 << 20  # bytes: 10,000 nodes are about 10 MiB


class Config(ActingConfig, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A receiver of kind `slurm` that drains nodes; see also `acting.ActingConfig`. `undo` resumes.

    scontrol    the program, with arguments where it needs some; its user must be an operator of Slurm.
    url         of slurmrestd instead: "http://slurmctl:6820", "https://...", "unix:///run/slurmrestd.sock".
    user        X-SLURM-USER-NAME for slurmrestd, where its token belongs to somebody else.
    token_file  file with a JSON web token for slurmrestd; read at each question.
    ca_file     CA certificates (PEM) to trust instead of the system's.
    """

    scontrol: tuple[str, ...] = ("scontrol",)
    url: str = ""
    user: str = ""
    token_file: str = ""
    ca_file: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.scontrol or not all(self.scontrol):
            raise ValueError("`scontrol` has an empty word")
        if self.url and not self.url.startswith(("http://", "https://", "unix:///")):
            raise ValueError(f"`url` must be http://..., https://... or unix:///..., got {self.url!r}")


class SlurmError(Exception):
    """Slurm could not be asked, or refused; the text is one line for a person."""


class Slurm(Protocol):
    """How Slurm is reached. Each call raises SlurmError."""

    async def nodes(self) -> list[SlurmNode]: ...

    async def node(self, name: str) -> SlurmNode | None: ...

    async def update(self, name: str, state: str, reason: str) -> None: ...


def open(name: str, config: Config, links: Links = NO_LINKS) -> Drain:
    """The actor of one entry below `senders:`."""
    return Drain(name, config, Rest(config) if config.url else Command(config))


class Drain:
    """Drains and resumes by what stands."""

    def __init__(self, name: str, config: Config, slurm: Slurm) -> None:
        self.name, self.config, self.period, self._slurm = name, config, float(config.period), slurm

    async def act(self, standing: Standing, diary: Diary) -> Report:
        try:
            everything = await self._slurm.nodes()
        except SlurmError as error:
            return Report(error=str(error))
        nodes = by_our_names(everything, [n.node for n in standing.nodes])
        names = {node.name: name for name, node in nodes.items()}
        # Also those that the centre knows no more: they count, and are not touched.
        held = [Held(names.get(node.name, node.name), node.incident) for node in everything if node.incident]
        behind = await past(diary, {h.incident for h in held}, standing.incidents)
        taken = {n.node: "Slurm knows no such node" for n in standing.nodes if n.node not in nodes}
        taken |= {name: node.taken for name, node in nodes.items() if node.taken}
        decision = decide(
            self.config.terms(), [*standing.incidents, *behind], standing.silenced, standing.nodes, held, taken,
            standing.deeds, standing.at,
        )  # fmt: skip
        report = Report(withheld=decision.withheld, held=len(held), dry=self.config.dry_run)
        for name, incident in decision.act:
            await self._change(
                report, diary, self._deed(name, "drain", incident.id, standing.at), nodes[name], incident
            )
        for each in decision.undo:
            deed = self._deed(each.node, "resume", each.incident, standing.at)
            await self._change(report, diary, deed, nodes[each.node], None)
        return report

    async def close(self) -> None:
        """There is nothing to let go of: each question has a connection or process of its own."""

    def _deed(self, node: str, verb: str, incident: str, at: float) -> Deed:
        return Deed(self.name, node, verb, incident, at, undo=verb == "resume")

    async def _change(
        self, report: Report, diary: Diary, deed: Deed, node: SlurmNode, incident: Incident | None
    ) -> None:
        """Drain (with an incident) or resume (without), if the node still is as it was when that was decided."""
        if self.config.dry_run:
            report.done.append(deed)
            return
        try:
            now = await self._slurm.node(node.name)
            if now is None or now.incident != node.incident or now.drained != node.drained:
                report.failed[deed.node] = "somebody else has changed it in this moment; left as it is"
                return
            await diary.write(deed)
            if incident is not None:
                await self._slurm.update(node.name, "DRAIN", reason_of(incident.id, incident.title))
            else:
                # Not RESUME: that would also put a node in service which is down for a reason of its own.
                await self._slurm.update(node.name, "UNDRAIN", "")
            after = await self._slurm.node(node.name)
        except SlurmError as error:
            report.failed[deed.node] = str(error)
            return
        if after is None or after.drained != (incident is not None):
            state = "+".join(sorted(after.state)) if after is not None else "gone"
            report.failed[deed.node] = f"Slurm took the {deed.verb}, but the node is {state}"
            return
        report.held += -1 if deed.undo else 1
        report.done.append(deed)


class Command:
    """By `scontrol` on this machine."""

    def __init__(self, config: Config) -> None:
        self._command, self._deadline = tuple(config.scontrol), float(config.timeout)

    async def nodes(self) -> list[SlurmNode]:
        found = from_text(await self._run("--oneliner", "show", "nodes"))
        if not found:
            raise SlurmError(f"{self._command[0]} shows no nodes")
        return found

    async def node(self, name: str) -> SlurmNode | None:
        return next((n for n in from_text(await self._run("--oneliner", "show", "node", name)) if n.name == name), None)

    async def update(self, name: str, state: str, reason: str) -> None:
        why = (f"Reason={reason}",) if reason else ()
        await self._run("update", f"NodeName={name}", f"State={state}", *why)

    async def _run(self, *words: str) -> str:
        try:
            return (await output((*self._command, *words), self._deadline, MAX_ANSWER)).decode(errors="replace")
        except CommandError as error:
            raise SlurmError(str(error)) from error


class Rest:
    """By slurmrestd. Which of VERSIONS it speaks is found out by asking, the newest first."""

    def __init__(self, config: Config) -> None:
        self._config, self._version = config, ""

    async def nodes(self) -> list[SlurmNode]:
        return _nodes(await self._ask("GET", "nodes"))

    async def node(self, name: str) -> SlurmNode | None:
        return next((n for n in _nodes(await self._ask("GET", f"node/{quote(name, safe='')}")) if n.name == name), None)

    async def update(self, name: str, state: str, reason: str) -> None:
        body = {"state": [state], **({"reason": reason} if reason else {})}
        answer = await self._ask("POST", f"node/{quote(name, safe='')}", msgspec.json.encode(body))
        try:
            errors = msgspec.json.decode(answer).get("errors") if answer else None
        except (msgspec.DecodeError, AttributeError) as error:
            raise SlurmError(f"no answer of slurmrestd: {answer[:80]!r}") from error
        if errors:
            raise SlurmError(f"refused: {str(errors)[:300]}")

    async def _ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        config = self._config
        unix = config.url.removeprefix("unix://") if config.url.startswith("unix://") else ""
        base = "http://slurmrestd" if unix else config.url.rstrip("/")
        limit = aiohttp.ClientTimeout(total=float(config.timeout))
        try:
            trust = tls_by(config.ca_file) if config.ca_file else True
            connector = aiohttp.UnixConnector(unix) if unix else aiohttp.TCPConnector(limit=2, ssl=trust)
            async with aiohttp.ClientSession(connector=connector, headers=self._headers(), timeout=limit) as session:
                for version in (self._version,) if self._version else VERSIONS:
                    url = f"{base}/slurm/{version}/{path}"
                    async with session.request(method, url, data=body, allow_redirects=False) as answer:
                        data = await _whole(answer)
                        if answer.status in (404, 501) and not self._version:  # a version unknown to this slurmrestd
                            continue
                        if answer.status != 200:
                            said = " ".join(data.decode(errors="replace").split())[:200]
                            raise SlurmError(f"HTTP {answer.status}{f': {said}' if said else ''}")
                        self._version = version
                        return data
        except TimeoutError as error:
            raise SlurmError(f"no answer within {config.timeout:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise SlurmError(f"{type(error).__name__}: {error}") from error
        raise SlurmError(f"speaks none of {VERSIONS[-1]} to {VERSIONS[0]}")

    def _headers(self) -> dict[str, str]:
        headers = {"User-Agent": USER_AGENT, "Accept": "application/json", "Content-Type": "application/json"}
        if self._config.user:
            headers["X-SLURM-USER-NAME"] = self._config.user
        if self._config.token_file:
            headers["X-SLURM-USER-TOKEN"] = read_secret(self._config.token_file)
        return headers


async def _whole(answer: aiohttp.ClientResponse) -> bytes:
    pieces, size = [], 0
    async for piece in answer.content.iter_chunked(1 << 20):
        size += len(piece)
        if size > MAX_ANSWER:
            raise SlurmError(f"the answer has more than {MAX_ANSWER} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def _nodes(data: bytes) -> list[SlurmNode]:
    try:
        return from_json(data)
    except ValueError as error:
        raise SlurmError(f"no answer of slurmrestd: {error}") from error
