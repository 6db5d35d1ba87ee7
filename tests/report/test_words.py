"""What reports, films and names say, without a browser."""

import html
import json
import re

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TRAPEZOIDAL

import carom
from carom.drawing import dots, film, mesh, plane
from carom.report.html import report


def _run(contacts=2, num_steps=60, **more):
    gaps = [carom.Contact(lambda q: q[1], name="floor"), carom.Contact(lambda q: 2 - q[0], name="wall")][:contacts]
    system = carom.System(lambda q, v: 0.5 * v @ v - 9.81 * q[1], gaps)
    shape = lambda q: [[[q[0], q[1]], [q[0] + 0.1, q[1]]]]  # noqa: E731
    return carom.solve(system, TRAPEZOIDAL, [0.0, 1.0], [1.0, 0.0], dt=0.01, num_steps=num_steps, shape=shape, throw=False, **more)


@pytest.fixture(scope="module")
def run():
    return _run()


def _data(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_the_report_offers_no_upload(run):
    assert "showSendToCloud: false" in report(run)


def test_a_contact_has_one_colour(run):
    """The curve of a gap carries the number of its contact, by which impulses are coloured too."""
    panels = {panel["title"]: panel["series"] for panel in _data(report(run))["panels"]}
    assert [curve["contact"] for curve in panels["gaps"]] == [0, 1]
    assert all("contact" not in curve for curve in panels["coordinates"])
    page = report(run)
    assert "look.colours[s.colour % 8]" in page and "look.colours[Math.max(c, 0) % 8]" in page


def test_momenta_have_the_units_that_follow_from_energy_and_time():
    space = carom.Euclidean(2, ("x", "angle"), units=("m", "rad"), time="s", energy="J")
    system = carom.System(lambda q, v: 0.5 * v @ v - 9.81 * q[0], space=space)
    run = carom.solve(system, TRAPEZOIDAL, [0.0, 1.0], [1.0, 0.0], dt=0.01, num_steps=3)
    panels = {panel["title"]: [curve["name"] for curve in panel["series"]] for panel in _data(report(run))["panels"]}
    assert panels["momenta"] == ["x [J s/m]", "angle [J s/rad]"] and panels["coordinates"] == ["x [m]", "angle [rad]"]
    assert carom.Euclidean(1, units="m", time="s").momentum_units == ("",)  # the control: nothing is guessed
    assert carom.Power(space, 2).momentum_units == ("J s/m", "J s/rad") * 2
    assert carom.Product(carom.SO3(), space).momentum_units == ("",) * 5


def test_what_is_gone_through_is_not_called_kept():
    """Bars touch by springs without mass: their gaps become negative, and a report must not say non-penetration beside that."""
    run = carom.models.bars(elements=(4, 4)).solve(num_steps=80)
    assert run.smallest_gap.min() < -1e-4 and "non-penetration" not in run.preserved and "momentum" in run.preserved


def test_reaching_the_impacts_asked_for_is_no_warning():
    reached = _run(1, 200, max_impacts=1)
    assert reached.status.name == "impacts_reached" and "1 impact reached" in reached.status.message
    assert 'id="message" hidden></p>' in report(reached)


def test_control_a_failure_is_one():
    failed = carom.solve(
        carom.System(lambda q, v: 0.5 * v @ v + q[0] ** 4 / 4),
        TRAPEZOIDAL, [1.0, 0.0], [1.0, 0.0], dt=0.1, num_steps=200, throw=False,
    )  # fmt: skip
    assert not failed.status.ok and f'id="message" >{html.escape(failed.status.message)}</p>' in report(failed)


@pytest.mark.parametrize(
    ("system", "culprit"),
    [
        (
            carom.System(lambda q, v: 0.5 * v @ v, force=lambda q: jnp.array([-jnp.sqrt(q[0]), 0.0])),
            "the force is not a number",
        ),
        (
            carom.System(lambda q, v: 0.5 * v @ v, [carom.Contact(lambda q: jnp.sqrt(q[0]) + 1 - q[1] / 2, name="rim")]),
            "the gap of contact 'rim' is not a number",
        ),
    ],
)
def test_the_function_that_is_not_finite_is_named(system, culprit):
    run = carom.solve(system, TRAPEZOIDAL, [1.0, 1.0], [-1.0, 0.0], dt=0.01, num_steps=300, throw=False)
    assert run.status.name == "not_finite" and culprit in run.status.message and "lagrangian" not in run.status.message


def test_velocities_on_groups_have_names():
    assert carom.SO3().directions == ("wx", "wy", "wz") and carom.SE3().directions == ("wx", "wy", "wz", "vx", "vy", "vz")
    body = carom.Product(carom.Euclidean(3, ("x", "y", "z")), carom.SO3())
    assert body.directions == ("x", "y", "z", "wx", "wy", "wz") and len(body.directions) == body.dim
    assert carom.Power(carom.SO3(), 2).directions == ("wx0", "wy0", "wz0", "wx1", "wy1", "wz1")
    assert carom.Euclidean(2).directions == ("q0", "q1")


def test_a_floor_in_space_is_as_large_as_the_motion():
    def shape(q):
        return [mesh(np.eye(3) + q, [[0, 1, 2]]), plane((0, 0, 0), (0, 0, 1))]

    reel = film(shape, np.arange(3.0), np.array([[0.0, 0, 1], [5.0, 1, 2], [9.0, -3, 1]]), {})
    floor = reel.track(1)
    assert np.all(floor[..., 2] == 0) and np.array_equal(floor[0], floor[2])
    body = reel.track(0).reshape(-1, 3)
    assert np.all(floor[0].min(axis=0)[:2] < body.min(axis=0)[:2]) and np.all(floor[0].max(axis=0)[:2] > body.max(axis=0)[:2])
    model = carom.models.ALL["rigid_body"]()
    assert any(part.endless for part in film(model.shape, np.zeros(1), np.array([model.q0]), model.params).parts)
    with pytest.raises(carom.InputError, match="normal of three numbers"):
        plane((0, 0, 0), (0, 0, 0))


def test_a_bar_has_a_height():
    model = carom.models.ALL["bars"]()
    parts = film(model.shape, np.zeros(1), np.array([model.q0]), model.params).parts
    for part in parts:
        assert np.ptp(part.points[:, 1]) > 0.01 * np.ptp(np.asarray(model.q0)) and np.array_equal(part.points[0], part.points[-1])


def test_a_film_in_a_notebook_needs_no_network(run):
    shown = run.animate(stop=0.1, fps=10)._repr_html_()
    assert "http" not in shown.split("base64")[0] and "<link" not in shown and 'class="fa' not in shown
    assert "▶" in shown and "◀" in shown


def test_a_run_that_bursts_is_reported_without_a_warning(recwarn):
    """Numbers up to 1e122, where the pages have numbers of four bytes: what is beyond them is left out."""
    system = carom.System(lambda q, v: 0.5 * v @ v + q[0] ** 4)
    shape = lambda q: [dots([[q[0], q[1]]])]  # noqa: E731
    run = carom.solve(system, TRAPEZOIDAL, [1.0, 0.0], [1.0, 0.0], dt=0.05, num_steps=200, shape=shape, throw=False)
    assert not run.status.ok and np.max(np.abs(run.p)) > 1e39
    for coarse in (False, True):
        assert "not finite" in report(run, coarse=coarse)
    assert [str(one.message) for one in recwarn if issubclass(one.category, RuntimeWarning)] == []
    with pytest.warns(RuntimeWarning, match="overflow"):
        np.asarray(run.p, "f4")  # control


def test_one_body_is_a_body_and_nothing_is_counted_of_nothing(run):
    world = carom.World(gravity=(0, 0, 0))
    world.add(carom.shapes.Sphere(0.1), mass=1.0)
    assert str(world.solve(dt=0.01, num_steps=1)).startswith("1 body, 1 step, 0 contacts: ")
    assert "largest depth 0" in str(world.solve(dt=0.01, num_steps=1))
    free = carom.solve(
        carom.System(lambda v: 0.5 * v @ v, [carom.Contact(lambda q: q[0])]), TRAPEZOIDAL, [1.0], [1.0], dt=0.1, num_steps=2
    )
    assert "near grazing" not in report(free) and "near grazing" in report(run)  # the control: where something was hit
