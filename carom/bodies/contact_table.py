"""The contacts of a run as one table: who touched whom, where, when, how hard, and whether it stuck or slid."""

import html
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from carom.bodies.stepping import ContactTable
from carom.results.choosing import chosen_of, number_of

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

CONTACT_STATES = ("open", "stick", "slide")
COLUMNS = ("step", "t", "a", "b", "point", "normal", "gap", "impulse", "state", "impact")
SHOWN = 8  # rows in a notebook or a terminal


@dataclass(frozen=True)
class WorldContacts:
    """Contacts that pressed or were closed, one row each, in time order. `impulse` acts on body b, at `point`."""

    step: np.ndarray  #     [m]
    t: np.ndarray  #        [m]     end of the step
    a: np.ndarray  #        [m]     numbers of the bodies
    b: np.ndarray  #        [m]
    point: np.ndarray  #    [m, 3]
    normal: np.ndarray  #   [m, 3]  from a to b
    gap: np.ndarray  #      [m]
    impulse: np.ndarray  #  [m, 3]
    state: np.ndarray  #    [m]     "open", "stick" or "slide"
    impact: np.ndarray  #   [m]     in the impact at the start of the step, or in the step itself
    names: tuple[str, ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.step)

    def __getitem__(self, which: Any) -> Any:
        """The contacts that a number, a slice, a mask or a list of numbers chooses; or a column, by its name."""
        chosen = chosen_of(which, {name: getattr(self, name) for name in COLUMNS}, len(self), "contacts")
        if isinstance(chosen, np.ndarray):
            return chosen
        return self.take(np.array([chosen])) if isinstance(chosen, int) else WorldContacts(**chosen, names=self.names)

    @property
    def bodies(self) -> list[tuple[str, str]]:
        """The names of both bodies."""
        return [(self.names[i], self.names[j]) for i, j in zip(self.a, self.b, strict=True)]

    @property
    def normal_impulse(self) -> np.ndarray:
        """[m] the part of the impulse along the normal."""
        return np.sum(self.impulse * self.normal, axis=1)

    def of(self, body: Any) -> "WorldContacts":
        """The contacts of one body, by its handle, name or number."""
        i = self._number(body)
        return self.take((self.a == i) | (self.b == i))

    def between(self, first: Any, second: Any) -> "WorldContacts":
        """The contacts of two bodies with each other."""
        i, j = self._number(first), self._number(second)
        return self.take(((self.a == i) & (self.b == j)) | ((self.a == j) & (self.b == i)))

    def _number(self, body: Any) -> int:
        return number_of(body if isinstance(body, (str, int, np.integer)) else getattr(body, "name", body), self.names, "body")

    def take(self, rows: np.ndarray) -> "WorldContacts":
        columns = {name: getattr(self, name)[rows] for name in COLUMNS}
        return WorldContacts(**columns, names=self.names)

    def to_pandas(self) -> "pd.DataFrame":
        """A data frame with a row per contact: bodies by name, vectors as columns x, y, z."""
        import pandas as pd

        columns: dict[str, Any] = {"t": self.t, "step": self.step}
        columns |= {side: [self.names[i] for i in getattr(self, side)] for side in ("a", "b")}
        columns |= {"state": self.state, "impact": self.impact.astype(bool), "gap": self.gap, "normal_impulse": self.normal_impulse}
        for name in ("impulse", "point", "normal"):
            columns |= {f"{name}.{axis}": getattr(self, name)[:, k] for k, axis in enumerate("xyz")}
        return pd.DataFrame(columns)

    def to_xarray(self) -> "xr.Dataset":
        """A labelled dataset along `contact`, with the time of each as a coordinate; a and b are the names of the bodies."""
        import xarray as xr

        names = np.array(self.names, dtype=object)
        data: dict[str, Any] = {name: (("contact", "axis"), getattr(self, name)) for name in ("point", "normal", "impulse")}
        data |= {name: ("contact", getattr(self, name)) for name in ("step", "gap", "impact")}
        data |= {side: ("contact", names[getattr(self, side)]) for side in ("a", "b")}
        data["state"] = ("contact", self.state.astype(object))  # texts of a fixed length have no place in zarr's format
        return xr.Dataset(data, coords={"t": ("contact", self.t), "axis": np.array(list("xyz"), dtype=object)})

    def __repr__(self) -> str:
        rows = [f"{'t':>12}  {'bodies':<32} {'state':<6} {'impulse':>12}"]
        first = self.take(np.arange(min(SHOWN, len(self))))
        size = np.linalg.norm(first.impulse, axis=1)
        for i, pair in enumerate(first.bodies):
            rows.append(f"{first.t[i]:12.6f}  {' – '.join(pair):<32} {first.state[i]:<6} {size[i]:12.6g}")
        return f"{len(self)} contacts\n" + "\n".join(rows + ["…"] * (len(self) > SHOWN)) if len(self) else "no contacts"

    def _repr_html_(self) -> str:
        first = self.take(np.arange(min(SHOWN, len(self))))
        size = np.linalg.norm(first.impulse, axis=1)
        rows = []
        for i, (a, b) in enumerate(first.bodies):
            cells = (f"{first.t[i]:.9g}", html.escape(a), html.escape(b), str(first.state[i]), f"{size[i]:.6g}")
            rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
        rows += ["<tr><td colspan=5>…</td></tr>"] * (len(self) > SHOWN)
        head = "".join(f"<th>{name}</th>" for name in ("t", "a", "b", "state", "impulse"))
        return f"<table><caption>{len(self):,} contacts</caption><tr>{head}</tr>{''.join(rows)}</table>"


def meetings(contacts: WorldContacts, steps: np.ndarray, before: WorldContacts | None = None) -> np.ndarray:
    """The rows at which two bodies meet: an impact of a pair that did not press in the step before, one row for each pair. A domino
    that slides down another one strikes it in every step, and meets it once.

    `steps`: those whose states were kept; between two of them only impacts are known, and no pair meets again.
    `before`: the contacts of the run that this one goes on with."""
    parts = [contacts] if before is None else [before, contacts]
    step, a, b = (np.concatenate([getattr(part, name) for part in parts]) for name in ("step", "a", "b"))
    impact = np.concatenate([part.impact.astype(bool) for part in parts])
    pair = np.minimum(a, b) * len(contacts.names) + np.maximum(a, b)
    rows = np.flatnonzero(np.concatenate([np.any(part.impulse != 0, axis=1) for part in parts]))
    rows = rows[np.lexsort((~impact[rows], step[rows], pair[rows]))]  # of a pair in a step the impacts come first
    another = np.diff(pair[rows], prepend=-1) != 0
    apart = np.diff(step[rows], prepend=step[rows][:1]) > np.max(np.diff(steps), initial=1)
    met = np.sort(rows[(another | apart) & impact[rows]])
    first = len(step) - len(contacts)
    return met[met >= first] - first


@dataclass
class ContactLog:
    """Collects the tables of all steps."""

    found: list[tuple[int, float, ContactTable]] = field(default_factory=list)

    def add(self, step: int, t: float, tables: list[ContactTable]) -> None:
        self.found += [(step, t, table) for table in tables if len(table.contacts)]

    def table(self, names: tuple[str, ...]) -> WorldContacts:
        counts = [len(table.contacts) for _, _, table in self.found]
        spread = lambda values, kind: np.repeat(np.array(values, kind), counts)  # noqa: E731
        told = [(one.contacts, one.impulse, one.state) for _, _, one in self.found]
        columns: dict[str, Any] = {
            "step": spread([one[0] for one in self.found], int),
            "t": spread([one[1] for one in self.found], float),
        }
        empty = {"point": np.zeros((0, 3)), "normal": np.zeros((0, 3)), "gap": np.zeros(0)}
        for name in ("a", "b", "point", "normal", "gap"):
            columns[name] = np.concatenate([empty.get(name, np.zeros(0, int)), *(getattr(c, name) for c, _, _ in told)])
        columns["impulse"] = np.concatenate([np.zeros((0, 3)), *(impulse for _, impulse, _ in told)])
        columns["state"] = np.array(CONTACT_STATES)[np.concatenate([np.zeros(0, int), *(state for _, _, state in told)])]
        columns["impact"] = spread([one.impact for _, _, one in self.found], bool)
        return WorldContacts(**columns, names=names)
