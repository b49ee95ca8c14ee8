"""The ``gappletron`` command, also as ``python -m gappletron``."""

from __future__ import annotations

from gappletron.base.signals import exit_at_once


def main() -> None:
    """Run the command; Ctrl-C while it is imported ends it with one line."""
    exit_at_once()
    from gappletron import cli

    cli.main()


if __name__ == "__main__":
    main()
