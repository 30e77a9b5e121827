"""Acknowledgements in store and memory, durable before they take effect; `notify/acknowledge.py` validates them."""

from __future__ import annotations

from collections.abc import Iterable

from fabricmon.central.store.records import StoredState
from fabricmon.central.store.store import Store
from fabricmon.model import Incident
from fabricmon.notify.acknowledge import Acknowledgement, acknowledgement

MAX_KEPT = 10_000  # acknowledgements in memory, newest kept, one per incident


class Acknowledgements:
    """The newest acknowledgement of each incident. Use from one event loop."""

    def __init__(self, store: Store, state: StoredState) -> None:
        self._store = store
        self.by_incident: dict[str, Acknowledgement] = {a.incident: a for a in state.acknowledgements}

    def covering(self, incident: Incident) -> Acknowledgement | None:
        """The acknowledgement that covers the incident as it is now."""
        found = self.by_incident.get(incident.id)
        return found if found is not None and found.covers(incident) else None

    async def add(self, incident: Incident, at: float, author: str, comment: str) -> Acknowledgement:
        """Acknowledge; durable on return. AcknowledgementError (a ValueError) for an invalid one."""
        (made,) = await self.add_all([incident], at, author, comment)
        return made

    async def add_all(
        self, incidents: Iterable[Incident], at: float, author: str, comment: str
    ) -> list[Acknowledgement]:
        """Acknowledge several at once: all of them, or none."""
        made = [acknowledgement(incident, at, author, comment) for incident in incidents]
        await self._store.commit(acknowledgements=made)
        self.by_incident |= {each.incident: each for each in made}
        self._forget(sorted(self.by_incident.values(), key=lambda a: a.at)[:-MAX_KEPT])
        return made

    async def withdraw(self, id: str) -> Acknowledgement | None:
        """Remove the acknowledgement; None where there is none."""
        found = self.by_incident.get(id)
        if found is not None:
            await self._store.commit(withdrawn=[id])
            self._forget([found])
        return found

    def _forget(self, acknowledgements: Iterable[Acknowledgement]) -> None:
        for each in acknowledgements:
            self.by_incident.pop(each.incident, None)
