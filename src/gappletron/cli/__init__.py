"""The command line: ``gappletron reproduce``, ``export``, ``run``, ``graph``, ``learners``, ``bound`` and ``demo``.

One module per command (``paper`` holds two) reads its options and shows results; what it runs is the library's public
interface. Tables go to the standard output, progress and errors to the standard error; a user error is one sentence and
exit code 2. The modules import the library inside their functions, so that ``--help`` is quick.
"""

from __future__ import annotations

import io
import sys
from typing import Annotated, Any

import typer

from gappletron import __version__
from gappletron._signals import exit_code
from gappletron._validate import UserError
from gappletron.cli import bound, demo, graph, learners, paper, run
from gappletron.cli.output import show_error

__all__ = ["app", "main"]

USAGE_ERROR: Any = typer.BadParameter.__mro__[1]
"""UsageError of click, of which some versions of typer contain a copy."""

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Online classification when what you see depends on what you predict.",
)
app.command("reproduce")(paper.reproduce)
app.command("export")(paper.export)
app.command("run")(run.run)
app.command("graph")(graph.describe_graph)
app.command("learners")(learners.list_learners)
app.command("bound")(bound.show_bounds)
app.command("demo")(demo.demo)


def main() -> None:
    """The ``gappletron`` command."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a file's name need not fit the terminal's encoding
    try:
        sys.exit(app(sys.argv[1:] or ["--help"], standalone_mode=False))
    except UserError as error:
        show_error(error)
        sys.exit(2)
    except USAGE_ERROR as error:
        typer.echo(
            f"gappletron: {' '.join(error.format_message().split()).rstrip('.')}: see {_help_of(error)}", err=True
        )
        sys.exit(2)
    except typer.Abort as stop:  # typer's name for KeyboardInterrupt, which is its cause
        typer.echo("stopped", err=True)
        sys.exit(exit_code(stop.__cause__))
    except BrokenPipeError:  # the reader has closed the pipe
        sys.stderr.close()
        sys.exit(0)


def _help_of(error: Any) -> str:
    """The help page of the command with the usage error."""
    return f"{error.ctx.command_path if error.ctx is not None else 'gappletron'} --help"


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gappletron {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options of the command itself."""
