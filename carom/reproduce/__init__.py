"""The five papers at one command: every figure, table and printed claim that a computer can regenerate, with a verdict."""

from carom.reproduce import bodies, continua, nonholonomic, timestepping
from carom.reproduce.exhibit import Exhibit, Row, chosen, table, write

EXHIBITS: tuple[Exhibit, ...] = (*bodies.EXHIBITS, *continua.EXHIBITS, *timestepping.EXHIBITS, *nonholonomic.EXHIBITS)

__all__ = ["EXHIBITS", "Exhibit", "Row", "chosen", "table", "write"]
