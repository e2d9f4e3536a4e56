"""Run the command line: ``python -m router``."""

from router.cli.app import main

if __name__ == "__main__":
    main()
