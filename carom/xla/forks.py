"""A process that was forked off one in which JAX had run: its threads are not there, and what waits for them waits for ever."""

import os
import sys

from carom.errors import InputError

_left_behind = False


def watch_forks() -> None:
    if hasattr(os, "register_at_fork"):  # where processes are forked at all
        os.register_at_fork(after_in_child=_look)


def _look() -> None:
    """JAX starts its threads when it is first asked for its devices. Where nobody knows whether it was, nothing is refused."""
    global _left_behind
    asked = getattr(sys.modules.get("jax._src.xla_bridge"), "backends_are_initialized", None)
    _left_behind = _left_behind or bool(asked is not None and asked())


def refuse_forked() -> None:
    if _left_behind:
        raise InputError(
            "this process was forked after JAX had run, and JAX has no threads here: it would wait for ever. Start processes by "
            "multiprocessing.get_context('spawn'); carom.ensemble and carom.sweep run many at once by themselves"
        )
