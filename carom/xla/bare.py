"""Finished programs without the computation that they were compiled from.

What XLA for CPUs writes of a compiled program is machine code, the order in which its pieces run, the places of their buffers, and
beside these the whole optimized computation, tens of thousands of operations, all of which it builds again, twice, when it loads
the program: four fifths of what loading takes. Nothing of that computation is run. What is asked of it is where arguments and
results lie and what the constants are. So it is written with these alone,

    parameters, constants, and one operation of nothing, whose results are those of the program,                     (1)

and the table of buffers with the values that these define. Machine code, its order and the buffers themselves stay as they are.

**Relies on** the layout of what `jax.experimental.serialize_executable` writes: a pickle, in it one long text of bytes, a header of
IFRT, and protocol buffers of XLA, whose fields have the numbers below. What is not as it is expected raises `Unknown`, and the
program is kept whole. That such programs load, and compute what they did, is tried out in another process (`probe.py`).
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

VARINT, BYTES = 0, 2  # how a field is written
SIZES = {1: 8, 5: 4}  # of the other ways
FRAME = 1 << 16  # bytes: what is longer stands outside of a pickle's frames
TUPLE = b"\x10\x0d"  # a shape that begins with this is that of a tuple
TARGET = "carom: machine code"  # of the operation of nothing, which nobody looks up


class Unknown(Exception):
    """Another layout than the one that is known."""


Field = tuple[int, int, Any]  # its number, how it is written, and a number or bytes


def bare(program: bytes) -> bytes:
    """The same program, as in (1)."""
    try:
        begin, end = _long_bytes(program)
        executable = program[begin:end]
        size, start = _varint(executable, 0)  # of the header
        small = executable[: start + size] + _replaced(executable[start + size :], {1: _bare_result})
        return program[: begin - 4] + len(small).to_bytes(4, "little") + small + program[end:]
    except (IndexError, KeyError, ValueError, TypeError) as error:
        raise Unknown(f"{type(error).__name__}: {error}") from error


def _long_bytes(pickled: bytes) -> tuple[int, int]:
    """Where the first bytes of at least a frame's length begin and end in a pickle: BINBYTES, their size, themselves. They stand
    outside of the frames, so that others may take their place."""
    for i in (hit.start() for hit in re.finditer(b"B", pickled)):
        size = int.from_bytes(pickled[i + 1 : i + 5], "little")
        if size >= FRAME and i + 5 + size <= len(pickled):
            return i + 5, i + 5 + size
    raise Unknown("it is short")


# -- what XLA writes ---------------------------------------------------------------------------------------------------------


def _bare_result(result: bytes) -> bytes:
    """Of a CompilationResultProto: field 1 holds the module (in its field 1), field 2 the buffers."""
    fields = list(_fields(result))
    (with_options,), (buffers,) = _all(fields, 1), _all(fields, 2)
    (module,) = _all(_fields(with_options), 1)
    table = _Table(buffers)
    computation = _Computation(module, table.constants())
    module = _replaced(module, {3: None, 7: None}) + computation.written() + computation.schedule()
    swapped = {1: lambda whole: _replaced(whole, {1: lambda _: module}), 2: lambda _: table.of(computation)}
    return _replaced(result, swapped)


class _Computation:
    """(1), from a HloModuleProto: 3 the computations, 6 the entry among them. Of a HloComputationProto 2 are the operations, 5 its
    number, 6 the last operation; of a HloInstructionProto 1 its name, 2 what it does, 3 its shape, 13 which part of a tuple, 28
    what is called, 35 its number, 36 what it is applied to, 38 the computations in it."""

    def __init__(self, module: bytes, constants: set[int]):
        fields = list(_fields(module))
        self.whole: list[bytes] = _all(fields, 3)
        self.entry, self.known = _first(fields, 6), {}
        self.fields = self.computation(self.entry)
        self.last = _first(self.fields, 6)
        self.shape: bytes = _all(self.operation(self.entry, self.last), 3)[0]
        kept = {_first(_fields(x), 35): x for x in _all(self.fields, 2) if b"\x12\x09parameter" in x}
        first, self.new, self.operations = min(kept), {}, []
        for i, (number, operation) in enumerate([*kept.items(), *_constants(module, constants)]):
            self.new[number] = first + i  # the numbers of an entry's operations follow one another
            self.operations.append(_replaced(operation, {35: None, 37: None}) + _number(35, first + i))
        self.new[self.last] = first + len(self.operations)
        nothing = [(1, b"results"), (2, b"custom-call"), (3, self.shape), (28, TARGET.encode())]
        self.operations.append(b"".join(_bytes(*field) for field in nothing) + _number(35, self.new[self.last]))

    def computation(self, number: int) -> list[Field]:
        mark = _number(5, number)
        (found,) = [x for x in self.whole if mark in x and _first(_fields(x), 5) == number]
        return list(_fields(found))

    def operation(self, computation: int, number: int) -> list[Field]:
        if computation not in self.known:
            fields = [list(_fields(x)) for x in _all(self.computation(computation), 2)]
            self.known[computation] = {_first(each, 35): each for each in fields}
        return self.known[computation][number]

    def source(self, values: Any, computation: int, number: int, index: tuple[int, ...]) -> Any:
        """Of these values, which are found by their places, the one that lies at a place, and may have been made elsewhere."""
        if (number, index) in values:
            return values[number, index]
        fields = self.operation(computation, number)
        what, given = _all(fields, 2)[0], [*_unpacked(b"".join(_bytes_of(x) for x in _all(fields, 36)))]
        if what == b"tuple" and index:
            return self.source(values, computation, given[index[0]], index[1:])
        if what == b"get-tuple-element":
            return self.source(values, computation, given[0], (_first(fields, 13), *index))
        if what in (b"bitcast", b"optimization-barrier", b"while"):  # a loop: what it hands through
            return self.source(values, computation, given[0], index)
        if what == b"call":
            (inside,) = _unpacked(b"".join(_bytes_of(x) for x in _all(fields, 38)))
            return self.source(values, inside, _first(self.computation(inside), 6), index)
        raise Unknown(f"a result of {what!r}")

    @property
    def places(self) -> list[tuple[int, ...]]:
        """Of the results, in their shape."""
        if not self.shape.startswith(TUPLE):
            return [()]
        parts = _all(_fields(self.shape), 4)
        if any(part.startswith(TUPLE) for part in parts):
            raise Unknown("tuples within tuples")
        return [(), *((i,) for i in range(len(parts)))]

    def written(self) -> bytes:
        rest = b"".join(_written(f) for f in self.fields if f[0] not in (2, 6))
        return _bytes(3, rest + b"".join(_bytes(2, x) for x in self.operations) + _number(6, self.new[self.last]))

    def schedule(self) -> bytes:
        """A HloScheduleProto: for each computation, its operations in order."""
        order = b"".join(_packed(number) for number in self.new.values())
        return _bytes(7, _bytes(1, _number(1, self.entry) + _bytes(2, _bytes(1, order))))


def _constants(module: bytes, wanted: set[int]) -> Iterator[tuple[int, bytes]]:
    """These operations, wherever they are: fields 2, 3, … of each, up to its number."""
    missing = set(wanted)
    for hit in re.finditer(b"\x12\x08constant", module):
        fields: list[bytes] = []
        for field in _fields(module, hit.start()):
            if field[0] == 35:
                break
            fields.append(_written(field))
        else:
            raise Unknown("a constant without a number")
        if field[2] in missing:
            missing.remove(field[2])
            yield field[2], b"".join([_bytes(1, b"constant.%d" % len(missing)), *fields])
    if missing:
        raise Unknown("constants that are none")


class _Table:
    """A BufferAssignmentProto: 1 values, 3 buffers. A value has a number (1) and a place (3); of a
    buffer 9 are the values in it, each with a number (1), an offset (2) and a size (3); 12 says that it is a constant. A place is
    the number of an operation (4) and an index in its shape (3)."""

    def __init__(self, written: bytes):
        self.fields = list(_fields(written))
        self.values = {}  # place: number, field
        for value in _all(self.fields, 1):
            fields = list(_fields(value))
            (place,) = _all(fields, 3)
            self.values[_place(place)] = next(iter(_all(fields, 1)), 0), fields

    def constants(self) -> set[int]:
        """The operations whose values are buffers by themselves."""
        numbers: set[int] = set()
        for buffer in _all(self.fields, 3):
            fields = list(_fields(buffer))
            if _all(fields, 12) == [1]:
                numbers |= {_first(_fields(x), 1) for x in _all(fields, 9)}
        return {place[0] for place, (number, _) in self.values.items() if number in numbers}

    def of(self, computation: _Computation) -> bytes:
        """The same with the values of (1) alone."""
        kept: dict[int, list[bytes]] = {}  # number: what is written of the value, and of what shares its buffer
        shared: dict[int, list[int]] = {}  # number: new numbers
        fresh = 1 + max(number for number, _ in self.values.values())
        for place, (number, fields) in self.values.items():
            if place[0] in computation.new and place[0] != computation.last:
                kept[number] = [_value(fields, number, computation.new[place[0]], place[1])]
                shared.setdefault(number, []).append(number)
        for index in computation.places:
            source, fields = computation.source(self.values, computation.entry, computation.last, index)
            kept[fresh] = [_value(fields, fresh, computation.new[computation.last], index)]
            shared.setdefault(source, []).append(fresh)
            fresh += 1
        out = [_bytes(1, value) for values in kept.values() for value in values]
        return b"".join([*out, *(_bytes(3, _shared(buffer, shared)) for buffer in _all(self.fields, 3))])


def _place(written: bytes) -> tuple[int, tuple[int, ...]]:
    fields = list(_fields(written))
    index = b"".join(_all(fields, 3))
    return _first(fields, 4), tuple(_unpacked(index))


def _value(fields: list[Field], number: int, operation: int, index: tuple[int, ...]) -> bytes:
    place = (_bytes(3, b"".join(_packed(i) for i in index)) if index else b"") + _number(4, operation)
    rest = b"".join(_written(f) for f in fields if f[0] not in (1, 3))
    return _number(1, number) + rest + _bytes(3, place)


def _shared(buffer: bytes, shared: dict[int, list[int]]) -> bytes:
    """A buffer with those of its values that are left."""
    out = []
    for field in _fields(buffer):
        if field[0] != 9:
            out.append(_written(field))
            continue
        inside = list(_fields(field[2]))
        rest = b"".join(_written(x) for x in inside if x[0] != 1)
        out += [_bytes(9, _number(1, number) + rest) for number in shared.get(_first(inside, 1), ())]
    return b"".join(out)


# -- protocol buffers --------------------------------------------------------------------------------------------------------


def _fields(written: bytes, i: int = 0) -> Iterator[Field]:
    end = len(written)
    while i < end:
        key, i = _varint(written, i)
        kind = key & 7
        if kind == VARINT:
            value, i = _varint(written, i)
            yield key >> 3, kind, value
            continue
        if kind == BYTES:
            size, i = _varint(written, i)
        else:
            size = SIZES[kind]
        if i + size > end:
            raise Unknown("not whole")
        yield key >> 3, kind, written[i : i + size]
        i += size


def _varint(written: bytes, i: int) -> tuple[int, int]:
    """A number, and where it ends."""
    byte = written[i]
    if byte < 128:
        return byte, i + 1
    value, shift = byte & 127, 7
    while True:
        i += 1
        byte = written[i]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, i + 1
        shift += 7


def _unpacked(written: bytes) -> Iterator[int]:
    i = 0
    while i < len(written):
        value, i = _varint(written, i)
        yield value


def _packed(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _bytes_of(value: Any) -> bytes:
    """Of numbers that may stand alone or one after the other."""
    return _packed(value) if isinstance(value, int) else value


def _all(fields: Any, number: int) -> list[Any]:
    return [f[2] for f in fields if f[0] == number]


def _first(fields: Any, number: int) -> int:
    """A number, which is not written where it is 0."""
    return next(iter(_all(fields, number)), 0)


def _number(number: int, value: int) -> bytes:
    return _packed(number << 3 | VARINT) + _packed(value)


def _bytes(number: int, value: bytes) -> bytes:
    return _packed(number << 3 | BYTES) + _packed(len(value)) + value


def _written(field: Field) -> bytes:
    number, kind, value = field
    if kind == VARINT:
        return _number(number, value)
    return _bytes(number, value) if kind == BYTES else _packed(number << 3 | kind) + value


def _replaced(written: bytes, changes: dict[int, Callable[[bytes], bytes] | None]) -> bytes:
    """The same with some fields changed, which have to be there, or (None) left out."""
    out: list[bytes] = []
    missing = {number for number, change in changes.items() if change is not None}
    for field in _fields(written):
        change = changes.get(field[0], _written)
        missing.discard(field[0])
        if change is not None:
            out.append(_written(field) if change is _written else _bytes(field[0], change(field[2])))
    if missing:
        raise Unknown(f"no field {missing}")
    return b"".join(out)
