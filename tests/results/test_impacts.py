"""The table of impacts, contact forces, and runs that go on."""

import numpy as np
import pytest
from conftest import TRAPEZOIDAL

import carom


@pytest.fixture(scope="module")
def bounce():
    system = carom.System(lambda q, v: 0.5 * v @ v - 9.81 * q[1], [carom.Contact(lambda q: q[1], name="floor <1>")])
    return carom.solve(system, TRAPEZOIDAL, [0.0, 1.0], [0.5, 0.0], dt=0.01, num_steps=300)


def test_impacts_are_rows_that_can_be_gone_through(bounce):
    hits = bounce.impacts
    rows = list(hits)
    assert len(rows) == len(hits) >= 3
    assert [row.t for row in rows] == hits.t.tolist() and rows[0].contact == "floor <1>"
    assert hits[0].t == hits.t[0] and hits[-1].impulse == hits.impulse[-1]
    late = hits[hits.t > 1.0]
    assert isinstance(late, carom.Impacts) and np.all(late.t > 1.0) and len(hits[:2]) == 2
    assert len(hits.on("floor <1>")) == len(hits.on(0)) == len(hits)
    with pytest.raises(IndexError):
        hits[len(hits)]


def test_impacts_as_a_data_frame_and_as_a_dataset(bounce):
    hits = bounce.impacts
    data = hits.to_xarray()
    assert np.array_equal(data["t"], hits.t) and data["q"].shape == (len(hits), 2)
    pytest.importorskip("pandas")
    frame = hits.to_pandas(bounce.coordinates)
    assert len(frame) == len(hits) and list(frame.columns[:5]) == ["t", "step", "contact", "impulse", "q.q0"]
    assert np.array_equal(frame["p_after.q1"], hits.p_after[:, 1])


def test_a_notebook_shows_tables_and_no_tags_of_the_user(bounce):
    for thing in (bounce, bounce.impacts, bounce.status):
        shown = thing._repr_html_()
        assert shown.count("<table") == shown.count("</table>") and "floor <1>" not in shown
    assert "floor &lt;1&gt;" in bounce.impacts._repr_html_() and "energy, drift" in bounce._repr_html_()
    assert "impacts</caption>" in bounce.impacts._repr_html_() and "1 impact</caption>" in bounce.impacts[:1]._repr_html_()


def test_one_impact_is_one_impact(bounce):
    assert repr(bounce.impacts[:1]).startswith("1 impact\n") and repr(bounce.impacts).startswith(f"{len(bounce.impacts)} impacts")


def test_the_mean_contact_force_of_a_bouncing_ball_is_its_weight(bounce):
    forces = bounce.contact_forces
    assert forces.shape == (300, 1) and np.count_nonzero(forces) == len(bounce.impacts)
    momentum = bounce.p[-1, 1] - bounce.p[0, 1]
    assert forces.sum() * bounce.dt - 9.81 * 3.0 == pytest.approx(momentum, abs=1e-11)  # Newton's law over the whole run


def test_a_run_goes_on_as_if_it_had_not_ended(bounce):
    first = carom.solve(bounce.system, TRAPEZOIDAL, [0.0, 1.0], [0.5, 0.0], dt=0.01, num_steps=120)
    longer = first.extend(180)
    assert longer.num_steps == 300 and longer.t.shape == bounce.t.shape and longer.status.step == 300
    assert np.array_equal(longer.impacts.step, bounce.impacts.step)
    assert np.max(np.abs(longer.q - bounce.q)) < 1e-11  # regular motion: rounding of the time at which it goes on
    assert "300 steps taken" in longer.status.message
    with pytest.raises(carom.InputError, match="num_steps must be a positive whole number"):
        first.extend(0)


def test_control_a_run_that_starts_anew_is_another_one(bounce):
    again = carom.solve(bounce.system, TRAPEZOIDAL, [0.0, 1.0], [0.5, 0.0], dt=0.01, num_steps=120)
    assert abs(again.t[-1] - bounce.t[-1]) > 1
