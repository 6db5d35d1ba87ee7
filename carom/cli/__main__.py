"""python -m carom.cli"""

from carom.cli.commands import main

main()
