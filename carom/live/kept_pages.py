"""What a gallery has already: a page is made again when carom, what it draws with, or its model have changed since."""

import hashlib
import inspect
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

SHELF = "made.json"  # in the folder of a gallery: what is there, and of what it was made
OUTSIDE = {"cli", "papers", "many"}  # parts of carom that no page is made of
DRAWN_WITH = ("jax", "matplotlib", "plotly")


@dataclass(frozen=True)
class MadePage:
    """A page of a gallery."""

    name: str
    about: str
    picture: str  #    what its card shows: a name in the folder
    told: str  #       what happens in the run that is shown first
    runs: int
    seconds: float  #  that it took to make
    files: list[str]
    key: str  #        of what it was made


def key_of(name: str, factory: Callable[..., Any]) -> str:
    """A number for all that a page is made of."""
    place = inspect.getsourcefile(factory)
    own = "" if place is None else Path(place).read_text("utf-8")
    return hashlib.sha256("\0".join([name, own, _carom()]).encode()).hexdigest()[:16]


@cache
def _carom() -> str:
    """All of carom that is run, drawn or shown on a page, and what draws it."""
    home = Path(__file__).parent.parent
    found = hashlib.sha256(" ".join(f"{package} {version(package)}" for package in DRAWN_WITH).encode())
    for path in sorted(p for kind in ("py", "html", "css", "js") for p in home.rglob(f"*.{kind}")):
        if path.relative_to(home).parts[0] not in OUTSIDE:
            found.update(path.read_bytes())
    return found.hexdigest()


def kept(folder: Path, name: str, key: str) -> MadePage | None:
    """The page as it was made, if it is still what would be made, and all of its files are there."""
    told = _read(folder).get(name)
    if told is None or told.key != key or not all((folder / file).exists() for file in told.files):
        return None
    return told


def keep(folder: Path, page: MadePage) -> None:
    """Note down what was made, page by page: a build that is stopped goes on where it was."""
    known = {**_read(folder), page.name: page}
    fresh = folder / f"{SHELF}.new"
    fresh.write_text(json.dumps({name: asdict(one) for name, one in known.items()}, indent=1) + "\n", encoding="utf-8")
    fresh.replace(folder / SHELF)


def _read(folder: Path) -> dict[str, MadePage]:
    """What is noted down; nothing, where that is not ours or of another time."""
    try:
        return {name: MadePage(**told) for name, told in json.loads((folder / SHELF).read_text("utf-8")).items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
