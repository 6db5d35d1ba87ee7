"""Options that do not exist, answered with the command that works: `carom run star --gravity 3` means `--set gravity=3`."""

import difflib
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from typer.core import TyperCommand

from carom.cli.parsing import settable
from carom.cli.terminal import BAD_INPUT, fail

CLOSE = 0.7  # of difflib: "gravty" is near "gravity", "step" is near "steps", and few other things are


class ModelCommand(TyperCommand):
    """A command that takes a model. What its parser refuses is looked at once more: it may be a parameter of the model."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = list(args)  # the parser takes them out one by one
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if getattr(error, "ctx", None) is not None or hasattr(error, "option_name"):  # errors of usage, by whichever click
                options = {name: not param.is_flag for param in self.params for name in param.opts if name.startswith("-")}
                told = advice(self.name or "", words, options)
                if told is not None:
                    fail(told, BAD_INPUT)
            raise


def advice(command: str, words: Sequence[str], options: Mapping[str, bool]) -> str | None:
    """The same command, written so that it works; None where nothing is known of it. `options` says which take a value."""
    model = "star" if command == "demo" else next((word for word in words if _model(word)), None)
    known = {} if model is None else settable(model)
    rewrite = _WRITTEN.get(command, _for_run)
    meant, changed, wrong, skip = [], [], [], False
    for i, word in enumerate(words):
        if skip:
            skip = False
            continue
        name, equals, value = _parts(word)
        if word.startswith("-") and f"--{name}" not in options and word not in options:
            wrong.append(f"--{name}" if word.startswith("--") else word)
            if not equals and i + 1 < len(words) and not words[i + 1].startswith("--") and words[i + 1] != model:
                value, skip = words[i + 1], True
            close = difflib.get_close_matches(name, [*known, *(o[2:] for o in options if o.startswith("--"))], 1, CLOSE)
            if not close:
                return None
            option = f"--{close[0]}"
            changed += [option, *([value] if value and options[option] else [])] if option in options else []
            meant += [] if option in options else [(close[0], value)]
        elif equals and name in known and not word.startswith("-") and words[i - 1] not in ("--set", "--vary"):
            wrong.append(word)
            meant.append((name, value))
        else:
            changed.append(word)
            if options.get(word) and i + 1 < len(words):
                changed.append(words[i + 1])
                skip = True
    if not wrong:
        return None
    return f"{command} does not take {', '.join(wrong)}; write: {rewrite(command, changed, meant)}"


def _parts(word: str) -> tuple[str, str, str]:
    """`--name=value` or `name=value`; dashes within a name are underscores."""
    name, equals, value = word.partition("=")
    return name.lstrip("-").replace("-", "_") if not name.startswith("--no-") else name[2:], equals, value


def _model(word: str) -> bool:
    from carom.models import ALL, SCENES

    return word in ALL or word in SCENES


def _joined(words: Sequence[str]) -> str:
    return shlex.join(["carom", *words])


def _for_run(command: str, words: Sequence[str], meant: Sequence[tuple[str, str]]) -> str:
    return _joined([command, *words, *(x for name, value in meant for x in ("--set", f"{name}={value or 'VALUE'}"))])


def _for_sweep(command: str, words: Sequence[str], meant: Sequence[tuple[str, str]]) -> str:
    return _joined([command, *words, *(x for name, value in meant for x in ("--vary", f"{name}={value or 'a,b,c'}"))])


def _for_play(command: str, words: Sequence[str], meant: Sequence[tuple[str, str]]) -> str:
    if not meant:
        return _joined([command, *words])
    watched = _for_run("run", [word for word in words if _model(word)], meant)
    return f"{_joined([command, *words])}, whose page has a slider for it; or watch a run: {watched} --live"


def _for_demo(command: str, words: Sequence[str], meant: Sequence[tuple[str, str]]) -> str:
    return _for_run("run", ["star", *words], meant) if meant else _joined([command, *words])


_WRITTEN: dict[str, Callable[[str, Sequence[str], Sequence[tuple[str, str]]], str]] = {
    "run": _for_run,
    "sweep": _for_sweep,
    "play": _for_play,
    "demo": _for_demo,
}
