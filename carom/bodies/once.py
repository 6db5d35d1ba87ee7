"""A property that is computed when it is first asked for, and kept.

As functools.cached_property, without the lock that Python before 3.12 takes for it: objects that live for one step are asked once
or twice each, and the lock cost more than what it guarded.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class once(Generic[T]):
    def __init__(self, compute: Callable[[Any], T]):
        self.compute, self.name, self.__doc__ = compute, compute.__name__, compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> "once[T]": ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        value = instance.__dict__[self.name] = self.compute(instance)
        return value
