"""What a person looks at: plots of one run, and of several beside each other."""

from carom.report.body_film import save_film
from carom.report.elastic import plot_balance, plot_bars, plot_beam
from carom.report.plots import plot_energy, plot_motion, plot_solution

__all__ = ["plot_balance", "plot_bars", "plot_beam", "plot_energy", "plot_motion", "plot_solution", "save_film"]
