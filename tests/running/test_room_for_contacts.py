"""A program has room for the contacts that are closed at the start: none is compiled for nothing."""

import numpy as np

import carom
from carom.running import chunked_run
from carom.running.checks import check_problem


def test_ten_boxes_at_rest_are_one_program(monkeypatch):
    compiled = []
    monkeypatch.setattr(chunked_run.March, "compile", lambda self, old=chunked_run.March.compile: compiled.append(1) or old(self))
    boxes = carom.models.stack(10)
    run = boxes.solve(carom.MoreauJean(), num_steps=20)
    assert len(compiled) == 1 and run.status.ok
    monkeypatch.setattr(chunked_run, "_contact_rows", lambda problem: chunked_run.CONTACT_ROWS)
    other = boxes.solve(carom.MoreauJean(), num_steps=20)
    assert len(compiled) == 3  # control: without it a first program finds no room in its first step
    assert np.array_equal(other.q, run.q)


def test_contacts_that_are_open_ask_for_no_room():
    """However many they are: closed contacts cost, open ones hardly."""
    heights = np.ones(40)
    system = carom.System(lambda q, v: 0.5 * v @ v - q.sum(), [carom.Contact(lambda q: q, restitution=0.0)])
    checked = [chunked_run._contact_rows(check_problem(system, h * heights, 0.0 * heights)) for h in (1.0, 0.0)]
    assert checked == [chunked_run.CONTACT_ROWS, 4 * chunked_run.CONTACT_ROWS]
