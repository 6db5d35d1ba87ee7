"""Where something is written to or read from: names of files, and titles, refused with a sentence where they are neither."""

import os
import tempfile
from pathlib import Path
from typing import Any

from carom.errors import InputError


def file_path(path: Any, like: str, *, there: bool = False) -> Path:
    """A name of a file as a path; `like` is an example of one. `there`: it is to be read, and not to be written."""
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        raise InputError(f"path must be the name of a file, such as {like!r}; got {path!r}")
    found = Path(os.fsdecode(path))
    if not there and found.is_dir() and found.suffix.lower() != ".zarr":
        raise InputError(f"{str(found)!r} is a folder, and a file goes there: say {str(found / like)!r}")
    if not there:
        _check_writable(found.parent)
    return found


def page_path(path: Any, like: str) -> Path:
    """The same for a page: under another ending no browser would open it."""
    found = file_path(path, like)
    if found.suffix.lower() not in ("", ".html", ".htm"):
        raise InputError(
            f"a report is a page, *.html; got {os.fspath(path)!r}. Pictures are saved by plot, films by animate, data by save"
        )
    return found


def _check_writable(folder: Path) -> None:
    """Whether something can be written is known for certain when something was."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(f"nothing can be written to {str(folder)!r} ({error.strerror}): choose another folder") from error


def titled(title: Any, otherwise: str) -> str:
    """A title, or what stands there without one."""
    if title is not None and not isinstance(title, str):
        raise InputError(f"title must be a text; got {title!r}")
    return title or otherwise
