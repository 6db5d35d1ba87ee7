"""The five papers at one command: every figure, table and printed claim that a computer can regenerate, with a verdict; and the
questions that they leave open, with answers."""

from carom.papers import beam_impacts, corners, demoures2017, elastic_formulas, fetecau2003, rodriguez2025, schindler2014
from carom.papers.discoveries import DISCOVERIES
from carom.papers.exhibit import Exhibit, Row, chosen, insert, table, write

EXHIBITS: tuple[Exhibit, ...] = (
    *fetecau2003.EXHIBITS,
    Exhibit("fetecau2003", "fig-6", "collisions at corners", corners.corners),
    *demoures2017.EXHIBITS,
    *beam_impacts.EXHIBITS,
    *elastic_formulas.EXHIBITS,
    *schindler2014.EXHIBITS,
    *rodriguez2025.EXHIBITS,
)

__all__ = ["DISCOVERIES", "EXHIBITS", "Exhibit", "Row", "chosen", "insert", "table", "write"]
