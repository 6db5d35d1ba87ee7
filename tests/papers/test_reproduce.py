"""carom reproduce: exhibits, verdicts, the page, and the command."""

import inspect
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import carom
from carom.cli.commands import app
from carom.cli.reproducing import _side_by_side
from carom.papers import EXHIBITS, Exhibit, Row, chosen, table
from carom.papers.exhibit import ANSWERED, DIFFERS, PAPERS, REPRODUCED, rows_of
from carom.papers.fetecau2003 import star_motion
from carom.papers.fingerprint import _bare, fingerprint

DOCS = Path(__file__).parents[2] / "docs"


def test_every_paper_has_exhibits_and_every_name_is_its_own():
    assert {e.paper for e in EXHIBITS} == set(PAPERS)
    assert len({e.key for e in EXHIBITS}) == len(EXHIBITS)
    assert [e.name for e in chosen(EXHIBITS, "rodriguez2024")] == ["section-6"]
    assert chosen(EXHIBITS, "fetecau2003/fig-4")[0].title == "energy of the star over 1500 impacts"
    assert len(chosen(EXHIBITS, "all")) == len(EXHIBITS)
    with pytest.raises(carom.InputError, match="did you mean 'rodriguez2025'"):
        chosen(EXHIBITS, "rodriguez2026")


def test_the_page():
    rows = [Row("a | b", "1", REPRODUCED, accepts="0 to 2"), Row("c", "2", DIFFERS, "misprint"), Row("d", "3", ANSWERED, "a walk")]
    page = table([(EXHIBITS[0], rows, "picture.png")])
    assert "3 claims: 1 reproduced, 1 differs, 1 answered, 0 not reproducible from the text." in page
    assert (
        "| a \\| b | 1 | 0 to 2 | reproduced |" in page and "| c | 2 |  | differs: misprint |" in page and "](picture.png)" in page
    )


def test_a_page_keeps_the_exhibits_that_were_not_run():
    one, other, late = EXHIBITS[0], EXHIBITS[1], EXHIBITS[-1]
    first = [(e, [Row("a", "1", REPRODUCED)], None) for e in (one, other, late)]
    page = table(first)
    assert table([], page) == page and table(first, page) == page
    again = table([(one, [Row("a", "5", DIFFERS), Row("b", "6", REPRODUCED)], None)], page)
    assert "4 claims: 3 reproduced, 1 differs, 0 answered" in again
    assert [line for line in again.splitlines() if line.startswith("##")] == [
        line for line in page.splitlines() if line.startswith("##")
    ]
    assert "| a | 5 |" in again and again.count("| a | 1 |") == 2


def test_sections_stand_in_the_order_of_their_numbers():
    names = ("section-4.1", "fig-10", "fig-9.2", "fig-1-2")
    page = table([(Exhibit("rodriguez2025", name, "x", star_motion), [Row("a", "1", REPRODUCED)], None) for name in names])
    assert re.findall(r"^### ([^:]+)", page, re.MULTILINE) == ["fig-1-2", "fig-9.2", "fig-10", "section-4.1"]


def _committed():
    return (DOCS / "reproduction.md").read_text(encoding="utf-8")


def test_the_committed_page_counts_its_own_rows():
    assert table([], _committed()) == _committed()


def test_the_committed_page_was_written_by_this_code():
    """Every exhibit is on the page, with a picture, and nothing that measures it has changed since it was written there. Where
    this fails, run `carom reproduce PAPER/NAME --full --out docs/reproduction --table docs/reproduction.md`."""
    page = rows_of(_committed())
    assert set(page) == {e.key for e in EXHIBITS}
    stale = [e.key for e in EXHIBITS if page[e.key][0] != e.code]
    assert not stale, f"the page is older than the code of {', '.join(stale)}"
    for exhibit in EXHIBITS:
        assert page[exhibit.key][1], f"{exhibit.key} has no rows"
        assert all(row.verdict in (REPRODUCED, DIFFERS, ANSWERED) for row in page[exhibit.key][1])
        assert all(row.why for row in page[exhibit.key][1] if row.verdict == DIFFERS)
        assert all(row.accepts for row in page[exhibit.key][1])
        assert (DOCS / "reproduction" / f"{exhibit.paper}-{exhibit.name}.png").exists()


def test_a_change_of_the_code_is_noticed():
    def one(full, draw):
        return 1

    def other(full, draw):
        return 2

    def formatted(
        full,
        draw,
    ):
        # a comment
        return 1

    def calls(full, draw):
        return helper() + LIMIT

    assert fingerprint(one) != fingerprint(other)
    assert _body(one) == _body(formatted)
    before = fingerprint(calls)
    globals()["LIMIT"] = 2.0
    try:
        assert fingerprint(calls) != before  # a constant that it uses
    finally:
        globals()["LIMIT"] = 1.0
    assert fingerprint(calls) == before


LIMIT = 1.0


def helper():
    return 0.0


def _body(function):
    return _bare(inspect.getsource(function)).partition("return")[2]


def _agrees(exhibit):
    """What a quick run says is what the page says: the same claims with the same verdicts, none that the page does not have."""
    page = {row.claim: row.verdict for row in rows_of(_committed())[exhibit.key][1]}
    rows = exhibit.make(False, None)
    assert rows
    for row in rows:
        assert page.get(row.claim) == row.verdict, row


@pytest.mark.parametrize("name", ["fetecau2003/fig-2", "fetecau2003/fig-3", "demoures2017/formulas"])
def test_the_page_says_what_the_code_says(name):
    _agrees(chosen(EXHIBITS, name)[0])


def test_the_command(tmp_path, monkeypatch):
    """An exhibit that is quick: verdicts, a picture, a page; and an interruption that keeps them."""

    def interrupted(full, draw):
        raise KeyboardInterrupt

    quick = [Exhibit("fetecau2003", "fig-3", "a star", star_motion), Exhibit("fetecau2003", "fig-9", "never", interrupted)]
    monkeypatch.setattr("carom.papers.EXHIBITS", quick)
    result = CliRunner().invoke(app, ["reproduce", "fig-3", "--out", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["fetecau2003/fig-3"]
    assert [row["verdict"] for row in found] == [REPRODUCED, REPRODUCED]
    assert (tmp_path / "fetecau2003-fig-3.png").stat().st_size > 10_000
    assert "a star" in (tmp_path / "reproduction.md").read_text()
    assert CliRunner().invoke(app, ["reproduce", "all", "--out", str(tmp_path / "all"), "--workers", "1"]).exit_code == 130
    assert "a star" in (tmp_path / "all" / "reproduction.md").read_text()
    monkeypatch.undo()
    assert CliRunner().invoke(app, ["reproduce", "nothing"]).exit_code == 2
    assert "fetecau2003/fig-2" in CliRunner().invoke(app, ["reproduce", "--list"]).stdout


@pytest.mark.stress
def test_side_by_side(tmp_path):
    """Two families in two processes, as one by one: the same rows and pictures."""
    exhibits = chosen(EXHIBITS, "fetecau2003/fig-3") + chosen(EXHIBITS, "schindler2014/fig-6")
    tasks = [(e, False, tmp_path / f"{e.name}.png", e.code) for e in exhibits]
    found = {e.key: (rows, drawn) for e, rows, drawn in _side_by_side(tasks, 2)}
    assert set(found) == {e.key for e in exhibits}
    page = rows_of(_committed())
    for key, (rows, drawn) in found.items():
        assert [row.verdict for row in rows] == [row.verdict for row in page[key][1]]
        assert drawn.stat().st_size > 10_000


@pytest.mark.stress
@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda e: e.key)
def test_verdicts_do_not_change(exhibit):
    _agrees(exhibit)
