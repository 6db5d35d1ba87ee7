"""What the code of a function refers to: names, attributes, modules, and what it changes."""

import dis
import functools
import types
from typing import Any, NamedTuple

_GROWERS = frozenset(["append", "extend", "insert", "setdefault", "update", "pop", "add", "clear", "remove"])


class _Reads(NamedTuple):
    """What a code object refers to."""

    key: tuple  #                   the code itself, wherever it was written
    names: tuple[str, ...]  #       globals
    attributes: frozenset[str]  #   of anything
    grown: frozenset[str]  #        captured containers that the code changes
    writes: bool  #                 it assigns to globals or to captured variables
    imports: frozenset[str]  #      modules that the code imports when it runs


@functools.lru_cache(4096)
def what_is_read(code: types.CodeType) -> _Reads:
    names: dict[str, None] = {}
    attributes: set[str] = set()
    grown: set[str] = set()
    imports: set[str] = set()
    writes, last = False, ""
    constants: list[Any] = []
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
            names[step.argval] = None
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"):
            attributes.add(step.argval)
            if step.argval in _GROWERS and last:
                grown.add(last)
        elif step.opname == "IMPORT_NAME":
            imports.add(step.argval)
        elif step.opname == "IMPORT_FROM":
            attributes.add(step.argval)
        elif step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            writes = True
        elif step.opname in ("STORE_DEREF", "DELETE_DEREF"):
            writes |= step.argval in code.co_freevars
        last = step.argval if step.opname in ("LOAD_GLOBAL", "LOAD_DEREF") else ""
    for constant in code.co_consts:
        attributes |= {word for word in _texts(constant) if word.isidentifier()}  # getattr(module, "gravity")
        if isinstance(constant, types.CodeType):
            inner = what_is_read(constant)
            names |= dict.fromkeys(inner.names)
            attributes |= inner.attributes
            grown |= inner.grown
            writes |= inner.writes
            imports |= inner.imports
            constants.append(inner.key)
        else:  # a set is written in the order of its hashes, which is another one in every process
            written = sorted(map(repr, constant)) if isinstance(constant, frozenset) else repr(constant)
            constants.append((type(constant).__name__, str(written)))
    shape = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags, code.co_exceptiontable)
    key = (code.co_code, tuple(constants), code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, *shape)
    return _Reads(key, tuple(names), frozenset(attributes), frozenset(grown), writes, frozenset(imports))


def _texts(constant: Any) -> tuple[str, ...]:
    several = constant if isinstance(constant, (tuple, frozenset)) else (constant,)
    return tuple(x for x in several if isinstance(x, str))
