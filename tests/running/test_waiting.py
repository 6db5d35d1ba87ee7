"""What takes long says so, to a person who watches, and to nobody else."""

import time

import pytest

from carom.running.progress import said_when_long


@pytest.mark.parametrize(
    ("takes", "wanted", "said"), [(0.5, True, True), (0.0, True, False), (0.5, False, False), (0.5, None, False)]
)
def test_a_sentence_is_said_where_something_takes_long(capsys, takes, wanted, said):
    with said_when_long("it takes a while", wanted, patience=0.05):  # None: nobody watches, stderr is no terminal here
        time.sleep(takes)
    time.sleep(0.1)  # nothing comes late
    assert ("it takes a while" in capsys.readouterr().err) == said


def test_an_error_goes_on(capsys):
    with pytest.raises(ZeroDivisionError), said_when_long("it takes a while", True, patience=0.2):
        1 / 0  # noqa: B018
    time.sleep(0.3)
    assert not capsys.readouterr().err
