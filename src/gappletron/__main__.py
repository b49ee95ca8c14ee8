"""``python -m gappletron`` is the ``gappletron`` command."""

from gappletron.cli import main

main()
