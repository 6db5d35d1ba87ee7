"""A player in the cell of a notebook: the page of the report, in a frame of its own. It needs no server, and no network."""

import html
from dataclasses import dataclass
from typing import Any

from carom.report.html import report


@dataclass(frozen=True)
class Widget:
    """What a notebook shows. The frame is sandboxed: what is in it cannot reach the notebook around it. `note` stands above it."""

    page: str
    height: int = 760
    note: str = ""

    @classmethod
    def of(cls, solution: Any) -> "Widget":
        return cls(report(solution))

    def _repr_html_(self) -> str:
        note = f"<p>{html.escape(self.note)}</p>" if self.note else ""
        return (
            f'{note}<iframe title="a run to play" sandbox="allow-scripts allow-downloads" width="100%" height="{self.height}" '
            f'style="border: 0" srcdoc="{html.escape(self.page)}"></iframe>'
        )

    def __repr__(self) -> str:
        words = f"a player for a notebook, {len(self.page) / 1e6:.1f} MB"
        return f"<{words}; {self.note}>" if self.note else f"<{words}>"
