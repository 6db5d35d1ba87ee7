"""The command line."""

from carom.cli.commands import main as main
