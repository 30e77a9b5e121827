"""Acting sender `slurm`: drains the node of an incident, and resumes it after the incident if `undo` is set.

A drain ends no jobs: running ones continue, no new ones start. A node drained by an administrator is not changed, nor
is a node whose reason was edited. The node is read before and after each change.
"""

from __future__ import annotations

from typing import Any, Protocol
from urllib.parse import quote

import msgspec

from fabricmon.forms.decoding import Undecodable, json_value
from fabricmon.model import Incident
from fabricmon.notify.acting import ActedNode, Deed, decide
from fabricmon.notify.links import NO_LINKS, IncidentLinks
from fabricmon.runtime.command import CommandError, output
from fabricmon.senders.acting import ActingConfig, ActionLog, ActionReport, Standing, incidents_behind
from fabricmon.senders.slurm_nodes import SlurmNode, by_our_names, from_json, from_text, reason_of
from fabricmon.senders.slurmrestd import SlurmError, Slurmrestd

VERSIONS = tuple(f"v0.0.{number}" for number in range(45, 38, -1))
"""Versions of slurmrestd that can change a node, the newest first."""
MAX_ANSWER = 64 << 20  # bytes: 10,000 nodes are about 10 MiB


class SlurmConfig(ActingConfig, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A receiver of kind `slurm` that drains nodes; see also `acting.ActingConfig`. `undo` resumes.

    scontrol    the program and its arguments; its user must be an operator of Slurm.
    url         use slurmrestd instead: "http://slurmctl:6820", "https://...", "unix:///run/slurmrestd.sock".
    user        X-SLURM-USER-NAME for slurmrestd, if the token is of another user.
    token_file  file with a JSON web token for slurmrestd; read at each request.
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


class Slurm(Protocol):
    """Access to Slurm. Each call raises SlurmError."""

    async def nodes(self) -> list[SlurmNode]: ...

    async def node(self, name: str) -> SlurmNode | None: ...

    async def update(self, name: str, state: str, reason: str) -> None: ...


def open(name: str, config: SlurmConfig, links: IncidentLinks = NO_LINKS) -> Drain:
    """The actor of one entry of `senders:`."""
    return Drain(name, config, SlurmRest(config) if config.url else Scontrol(config))


class Drain:
    """Drains and resumes nodes by the open incidents."""

    def __init__(self, name: str, config: SlurmConfig, slurm: Slurm) -> None:
        self.name, self.config, self.period, self._slurm = name, config, float(config.period), slurm

    async def act(self, standing: Standing, diary: ActionLog) -> ActionReport:
        try:
            everything = await self._slurm.nodes()
        except SlurmError as error:
            return ActionReport(error=str(error))
        nodes = by_our_names(everything, [n.node for n in standing.nodes])
        names = {node.name: name for name, node in nodes.items()}
        # Includes nodes that are no longer in the fleet: they count, and are not changed.
        held = [ActedNode(names.get(node.name, node.name), node.incident) for node in everything if node.incident]
        behind = await incidents_behind(diary, {h.incident for h in held}, standing.incidents)
        taken = {n.node: "unknown in Slurm" for n in standing.nodes if n.node not in nodes}
        taken |= {name: node.taken for name, node in nodes.items() if node.taken}
        decision = decide(
            self.config.terms(), [*standing.incidents, *behind], standing.silenced, standing.nodes, held, taken,
            standing.deeds, standing.at,
        )  # fmt: skip
        report = ActionReport(withheld=decision.withheld, held=len(held), dry=self.config.dry_run)
        for name, incident in decision.act:
            await self._change(
                report, diary, self._deed(name, "drain", incident.id, standing.at), nodes[name], incident
            )
        for each in decision.undo:
            deed = self._deed(each.node, "resume", each.incident, standing.at)
            await self._change(report, diary, deed, nodes[each.node], None)
        return report

    async def close(self) -> None:
        """Nothing to close: each request has its own connection or process."""

    def _deed(self, node: str, verb: str, incident: str, at: float) -> Deed:
        return Deed(self.name, node, verb, incident, at, undo=verb == "resume")

    async def _change(
        self, report: ActionReport, diary: ActionLog, deed: Deed, node: SlurmNode, incident: Incident | None
    ) -> None:
        """Drain (with an incident) or resume (without), if the node is unchanged since the decision."""
        if self.config.dry_run:
            report.done.append(deed)
            return
        try:
            now = await self._slurm.node(node.name)
            if now is None or now.incident != node.incident or now.drained != node.drained:
                report.failed[deed.node] = "changed concurrently in Slurm; not changed"
                return
            await diary.write(deed)
            if incident is not None:
                await self._slurm.update(node.name, "DRAIN", reason_of(incident.id, incident.title))
            else:
                # Not RESUME: that would also resume a node that is down for another reason.
                await self._slurm.update(node.name, "UNDRAIN", "")
            after = await self._slurm.node(node.name)
        except SlurmError as error:
            report.failed[deed.node] = str(error)
            return
        if after is None or after.drained != (incident is not None):
            state = "+".join(sorted(after.state)) if after is not None else "gone"
            report.failed[deed.node] = f"Slurm accepted the {deed.verb}, but the node is {state}"
            return
        report.held += -1 if deed.undo else 1
        report.done.append(deed)


class Scontrol:
    """Access by `scontrol` on this machine."""

    def __init__(self, config: SlurmConfig) -> None:
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


class SlurmRest:
    """Access by slurmrestd."""

    def __init__(self, config: SlurmConfig) -> None:
        self._slurm = Slurmrestd(config, VERSIONS, config.timeout, MAX_ANSWER)

    async def nodes(self) -> list[SlurmNode]:
        return _nodes(await self._slurm.request("GET", "nodes"))

    async def node(self, name: str) -> SlurmNode | None:
        found = _nodes(await self._slurm.request("GET", f"node/{quote(name, safe='')}"))
        return next((node for node in found if node.name == name), None)

    async def update(self, name: str, state: str, reason: str) -> None:
        body = {"state": [state], **({"reason": reason} if reason else {})}
        answer = await self._slurm.request("POST", f"node/{quote(name, safe='')}", msgspec.json.encode(body))
        try:
            errors = json_value(answer, dict[str, Any]).get("errors") if answer else None
        except Undecodable as error:
            raise SlurmError(f"not an answer of slurmrestd: {answer[:80]!r}") from error
        if errors:
            raise SlurmError(f"refused: {str(errors)[:300]}")


def _nodes(data: bytes) -> list[SlurmNode]:
    try:
        return from_json(data)
    except ValueError as error:
        raise SlurmError(f"not an answer of slurmrestd: {error}") from error
