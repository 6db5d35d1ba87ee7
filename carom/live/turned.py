"""Knobs, where they stand, and the model that they make: the same for what plays on a page and for what is in a notebook's cell."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from carom.errors import InputError
from carom.live.knobs import Knob, arguments_of, derived, knobs_of
from carom.live.world_parts import changed, world_knobs
from carom.models.model import Model
from carom.models.world_model import WorldModel


class ModelKnobs:
    """Of a model, which `factory` makes. `values` says where they stand; of those that follow from others (`derived`) only what a
    person has set (`by_hand`) is held."""

    factory: Callable[..., Model]
    knobs: dict[str, Knob]
    values: dict[str, float]
    derived: set[str]
    by_hand: set[str]

    def _find_knobs(self, name: str, factory: Callable[..., Model]) -> Model:
        """Look what can be turned; the model as it is made with nothing said."""
        model = factory()
        if model.shape is None:
            raise InputError(f"{name} has no picture to play with")
        self.factory = factory
        self.knobs = knobs_of(factory, model.params)
        self.derived, self.by_hand = derived(factory, self.knobs), set()
        return model

    def _told(self, values: dict[str, float] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """What is not as it was: arguments of the model, and parameters."""
        values = self.values if values is None else values
        told = {k for k, v in values.items() if (k in self.by_hand if k in self.derived else v != self.knobs[k].value)}
        return arguments_of(self.factory, {k: int(values[k]) if self.knobs[k].whole else values[k] for k in values if k in told})

    def model(self, values: dict[str, float] | None = None) -> Model:
        """The model with the knobs as they are, or at these values."""
        arguments, params = self._told(values)
        model = self.factory(**arguments)
        return replace(model, params={**model.params, **params})

    def _follow(self, params: Mapping[str, Any]) -> None:
        """Numbers that nobody has set become what follows from the others."""
        self.values |= {key: float(params[key]) for key in self.derived - self.by_hand if key in params}


class WorldKnobs:
    """The same of a world: arguments of the scene, and gravity, friction and restitution of any."""

    factory: Callable[..., WorldModel]
    knobs: dict[str, Knob]
    values: dict[str, float]

    def _find_knobs(self, factory: Callable[..., WorldModel]) -> WorldModel:
        model = factory()
        self.factory, self.knobs = factory, world_knobs(factory, model.world)
        return model

    def _told(self, values: dict[str, float] | None = None) -> dict[str, float]:
        """The values that are not what they were."""
        values = self.values if values is None else values
        return {k: int(v) if self.knobs[k].whole else v for k, v in values.items() if v != self.knobs[k].value}

    def model(self, values: dict[str, float] | None = None) -> WorldModel:
        """The world with the knobs as they are, or at these values."""
        return make(self.factory, self._told(values))


def make(factory: Callable[..., WorldModel], values: dict[str, float]) -> WorldModel:
    """The world with these numbers: arguments of its function, and what every world has."""
    arguments, rest = arguments_of(factory, values)
    return changed(factory(**arguments), rest)
