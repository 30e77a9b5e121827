"""Where a person finds more: the incident on the centre's page, and what to do about one of its kind. Pure."""

from __future__ import annotations

from msgspec import Struct

RUNBOOKS = "runbooks"
"""Path below the centre's page at which it serves the runbooks itself."""

KIND = "{kind}"
"""Stands for the incident's kind in `Links.runbooks`."""


class Links(Struct, frozen=True):
    """What links are made of; "" where nobody said, and then there is no such link.

    page      where people reach the centre's page: "https://fabricmon.example"
    runbooks  a site's own runbooks instead of those that the centre serves below `page`: an address to which "/" and
              the kind are added, or one in which "{kind}" stands for it
    """

    page: str = ""
    runbooks: str = ""

    def incident(self, id: str) -> str:
        """The incident on the page."""
        return f"{self.page.rstrip('/')}/#{id}" if self.page else ""

    def runbook(self, kind: str) -> str:
        """What to do about an incident of this kind."""
        base = self.runbooks or (f"{self.page.rstrip('/')}/{RUNBOOKS}" if self.page else "")
        if KIND in base:
            return base.replace(KIND, kind)
        return f"{base.rstrip('/')}/{kind}" if base else ""


NO_LINKS = Links()
