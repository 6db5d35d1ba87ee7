"""What every bad call is asked: to be answered by carom itself, with a sentence."""

import traceback
from pathlib import Path

import pytest

import carom

HOME = str(Path(carom.__file__).parent)


def answered(call, sentence: str) -> None:
    """The call ends in an InputError that was raised in carom, with this sentence, on one line."""
    with pytest.raises(carom.InputError, match=sentence) as caught:
        call()
    assert traceback.extract_tb(caught.value.__traceback__)[-1].filename.startswith(HOME)
    assert "\n" not in str(caught.value) and not str(caught.value).startswith(("'", '"'))
