"""python -m carom"""

from carom.cli.commands import main

if __name__ == "__main__":
    main()
