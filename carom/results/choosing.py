"""What is chosen from a table of results: a column by its name, rows by their numbers, and what is answered where there is none."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from carom.calls import nearest
from carom.errors import NotThere


def chosen_of(which: Any, columns: dict[str, np.ndarray], rows: int, what: str) -> int | np.ndarray | dict[str, np.ndarray]:
    """The number of a row; a column; or the columns of those rows that a slice, a mask or a list of numbers chooses."""
    if isinstance(which, str):
        if which not in columns:
            raise NotThere(f"the {what} have no column {which!r}; there are {', '.join(columns)}{nearest(which, columns)}")
        return columns[which]
    if isinstance(which, (int, np.integer)):
        if not -rows <= which < rows:
            raise NotThere(
                f"there is no row {which} in the {what}: " + (f"they are numbered 0 to {rows - 1}" if rows else "none happened")
            )
        return int(which) % rows
    try:
        index = np.arange(rows)[which]
    except (IndexError, TypeError, ValueError) as error:
        asked = "rows are chosen by a slice, a mask or a list of numbers, and columns by name"
        raise NotThere(f"the {what} have {rows} rows: {asked}; got {_brief(which)}") from error
    return {name: column[np.atleast_1d(index)] for name, column in columns.items()}


def _brief(value: Any) -> str:
    return f"an array of shape {value.shape}" if isinstance(value, np.ndarray) else repr(value)


def number_of(asked: Any, names: Sequence[str], what: str) -> int:
    """The number of something that has a name, by either."""
    if isinstance(asked, str) and asked in names:
        return list(names).index(asked)
    if isinstance(asked, (int, np.integer)) and 0 <= asked < len(names):
        return int(asked)
    hint = nearest(asked, names) if isinstance(asked, str) else ""
    raise NotThere(f"there is no {what} {asked!r} in this run; there are {', '.join(map(repr, names)) or 'none'}{hint}")
