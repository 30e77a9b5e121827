"""How a topology source says what is wrong with a file."""

from __future__ import annotations


class SourceError(ValueError):
    """A file that cannot be used as a topology: `path`, and `where` in it ("line 7", "links[3].to")."""

    def __init__(self, path: str, where: str, text: str) -> None:
        super().__init__(f"{path}: {where}: {text}" if where else f"{path}: {text}")
        self.path, self.where, self.text = path, where, text
