"""The impacts of a run as a table: rows to go through, columns to compute with, and what a notebook shows."""

import html
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from carom.results.choosing import chosen_of, number_of

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

SHOWN = 12  # rows in a notebook


def counted(number: int, thing: str) -> str:
    """1 impact, 2 impacts."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


class Impact(NamedTuple):
    """One row of the table."""

    t: float
    step: int
    contact: str  #           the contact that carried most of the impulse
    impulse: float
    q: np.ndarray
    p_before: np.ndarray
    p_after: np.ndarray


@dataclass(frozen=True)
class Impacts:
    """The impacts that happened, one row each, in time order: `for hit in impacts`, `impacts[3]`, `impacts[-10:]`."""

    t: np.ndarray  #         [m]
    step: np.ndarray  #      [m]      the step it fell into
    q: np.ndarray  #         [m, n]
    p_before: np.ndarray  #  [m, n]
    p_after: np.ndarray  #   [m, n]
    contact: np.ndarray  #   [m]      index of the contact that carried most of the impulse
    impulse: np.ndarray  #   [m]      its normal impulse
    impulses: np.ndarray  #  [m, k]   of all contacts: several where they closed together
    scale: np.ndarray  #     [m]      impulse relative to the law's, 1 + O(dt²): what keeps the discrete energy
    fallback: np.ndarray  #  [m]      elastic, but near grazing: reflected by the law itself
    names: tuple[str, ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.t)

    def __iter__(self) -> Iterator[Impact]:
        return (self._row(i) for i in range(len(self)))

    def __getitem__(self, which: Any) -> Any:
        """One impact, or a table of those that a slice, a mask or a list of numbers chooses; or a column, by its name."""
        columns = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "names"}
        chosen = chosen_of(which, columns, len(self), "impacts")
        if isinstance(chosen, (int, np.ndarray)):
            return self._row(chosen) if isinstance(chosen, int) else chosen
        return type(self)(**chosen, names=self.names)

    def on(self, contact: int | str) -> "Impacts":
        """Those of one contact, by its number or name."""
        return self[self.contact == number_of(contact, self.names, "contact")]

    def _row(self, i: int) -> Impact:
        where = self.names[self.contact[i]] if self.names else ""
        return Impact(
            float(self.t[i]), int(self.step[i]), where, float(self.impulse[i]), self.q[i], self.p_before[i], self.p_after[i]
        )

    def __repr__(self) -> str:
        rows = [f"{'t':>14}  {'contact':<16} {'impulse':>12}"]
        show = [*range(min(5, len(self))), *range(max(5, len(self) - 3), len(self))]
        for last, i in zip([-1, *show], show, strict=False):
            rows += ["…"] if i != last + 1 else []
            rows.append(f"{self.t[i]:14.6f}  {self.names[self.contact[i]]:<16} {self.impulse[i]:12.6g}")
        return f"{counted(len(self), 'impact')}\n" + "\n".join(rows) if len(self) else "no impacts"

    def _repr_html_(self) -> str:
        shown = [*range(min(SHOWN - 4, len(self))), *range(max(SHOWN - 4, len(self) - 4), len(self))]
        rows = []
        for before, i in zip([-1, *shown], shown, strict=False):
            rows += ["<tr><td colspan=5>…</td></tr>"] if i != before + 1 else []
            hit = self._row(i)
            cells = (str(i), f"{hit.t:.9g}", str(hit.step), html.escape(hit.contact), f"{hit.impulse:.6g}")
            rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
        head = "".join(f"<th>{name}</th>" for name in ("", "t", "step", "contact", "impulse"))
        return f"<table><caption>{counted(len(self), 'impact')}</caption><tr>{head}</tr>{''.join(rows)}</table>"

    def to_pandas(self, coordinates: tuple[str, ...] | None = None) -> "pd.DataFrame":
        """A data frame with a row per impact: t, step, contact (by name), impulse, and q, p before and p after by coordinate."""
        import pandas as pd

        columns: dict[str, Any] = {
            "t": self.t,
            "step": self.step,
            "contact": [self.names[c] for c in self.contact],
            "impulse": self.impulse,
        }
        for name in ("q", "p_before", "p_after"):
            values = getattr(self, name)
            same = coordinates is not None and len(coordinates) == values.shape[1]
            labels = coordinates if same and coordinates is not None else tuple(map(str, range(values.shape[1])))
            columns |= {f"{name}.{label}": values[:, i] for i, label in enumerate(labels)}
        return pd.DataFrame(columns)

    def to_xarray(self) -> "xr.Dataset":
        """A labelled dataset along `impact`, with the time of each as a coordinate."""
        import xarray as xr

        along = "coordinate" if self.p_after.shape[1:] == self.q.shape[1:] else "direction"
        return xr.Dataset(
            {
                "step": ("impact", self.step),
                "q": (("impact", "coordinate"), self.q),
                "p_before": (("impact", along), self.p_before),
                "p_after": (("impact", along), self.p_after),
                "contact": ("impact", self.contact),
                "impulse": ("impact", self.impulse),
                "impulses": (("impact", "contact_name"), self.impulses),
                "scale": ("impact", self.scale),
                "fallback": ("impact", self.fallback),
            },
            coords={"t": ("impact", self.t), "contact_name": np.array(self.names, dtype=object)},
        )

    @staticmethod
    def from_tables(tables: list[Any], n: int, owner: np.ndarray, names: tuple[str, ...]) -> "Impacts":
        """Join the tables of all chunks, and fold the faces of one obstacle into its contact."""

        def join(name: str, *shape: int, dtype: type = float) -> np.ndarray:
            return np.concatenate([np.asarray(getattr(t, name)) for t in tables] or [np.zeros((0, *shape), dtype)])

        faces = join("impulse", len(owner))
        impulses = np.zeros((len(faces), len(names)))
        for face, contact in enumerate(owner):
            impulses[:, contact] += faces[:, face]
        rows = np.arange(len(faces))
        contact = np.argmax(impulses, axis=1) if len(names) and len(faces) else np.zeros(len(faces), int)
        # Two contacts that share an impact equally are told apart by rounding only: take the first of them.
        if len(faces):
            contact = np.argmax(impulses >= impulses[rows, contact][:, None] * (1 - 1e-9), axis=1)
        return Impacts(
            t=join("t"),
            step=join("step", dtype=int),
            q=join("q", n),
            p_before=join("p_before", n),
            p_after=join("p_after", n),
            contact=contact,
            impulse=impulses[rows, contact] if len(names) else np.zeros(len(faces)),
            impulses=impulses,
            scale=join("scale"),
            fallback=join("fallback", dtype=bool),
            names=names,
        )
