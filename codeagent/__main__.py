"""What the installed `codeagent` and `python -m codeagent` start."""

import sys


def main() -> None:
    """Runs the command line. A Ctrl-C that comes while the program is still loading ends it as quietly as later."""
    try:
        from codeagent.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
