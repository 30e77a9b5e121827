"""JSON by the standard library alone, for commands that a person waits for: msgspec costs them 15 ms. Pure."""

from __future__ import annotations

import json
from typing import Any


class Undecodable(ValueError):
    """Input that is not of the expected form; the text gives the reason. `line` of it, 0 where unknown."""

    def __init__(self, text: str, line: int = 0) -> None:
        super().__init__(text)
        self.line = line


def loose_json(data: str | bytes) -> Any:
    """JSON that may also have NaN, Infinity and numbers of any size. Undecodable with its line."""
    try:
        return json.loads(data)
    except json.JSONDecodeError as error:
        raise Undecodable(error.msg, error.lineno) from None
    except RecursionError:
        raise Undecodable("nested too deep") from None
    except ValueError as error:
        raise Undecodable(str(error)) from None
