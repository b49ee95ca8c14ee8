"""The command line: ``gappletron run``, ``predict``, ``teach``, ``serve``, ``fleet``, ``reproduce`` and others.

One module per command reads its options and shows results; what it runs is the library's public interface. Tables go
to the standard output, progress and errors to the standard error; a user error is one sentence and exit code 2. The
modules import the library inside their functions, so that ``--help`` is quick.
"""

import io
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from gappletron import __version__
from gappletron.base.errors import UserError
from gappletron.cli.options import take_groups
from gappletron.cli.output import say, show_error, show_log, tell
from gappletron.cli.store import store

# UsageError of click, of which some versions of typer contain a copy.
USAGE_ERROR: Any = typer.BadParameter.__mro__[1]

# What packages are called whose modules have another name.
PACKAGES = {"sklearn": "scikit-learn"}

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Online classification when what you see depends on what you predict.",
)
COMMANDS = "reproduce export run predict teach serve fleet replay graph learners bound demo compile"
for name in COMMANDS.split():
    app.command(name)(take_groups(getattr(import_module(f"gappletron.cli.{name}"), name)))
app.add_typer(store, name="store")


def main() -> None:
    """Run the ``gappletron`` command."""
    sys.stdout, sys.stderr = sys.stdout or _nowhere(), sys.stderr or _nowhere()  # None where they are closed
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a file's name need not fit the terminal's encoding
    os.environ.pop("MPLBACKEND", None)  # no window is opened, and a wrong value would prevent importing matplotlib
    show_log()
    code = run_command(sys.argv[1:] or ["--help"])
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            code = code or _write_error(error)
            os.dup2(_nowhere().fileno(), stream.fileno())  # Python flushes once more at exit
    sys.exit(code)


def run_command(arguments: list[str]) -> int:
    """Run a command, and return its exit code."""
    try:
        return app(arguments, standalone_mode=False) or 0
    except UserError as error:
        show_error(error)
        return 2
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("gappletron"):
            raise
        package = PACKAGES.get(error.name, error.name)
        tell(f"gappletron: this needs {error.name}, which is not installed: pip install {package}")
        return 2
    except USAGE_ERROR as error:
        command = "gappletron" if error.ctx is None else error.ctx.command_path
        tell(f"gappletron: {' '.join(error.format_message().split()).rstrip('.')}: see {command} --help")
        return 2
    except SystemExit:  # click ends so where the reader has closed the pipe
        return 0
    except OSError as error:
        if error.filename is not None:  # files are written by functions that raise UserError
            raise
        return _write_error(error)


def _write_error(error: OSError) -> int:
    """Return the exit code where the standard output cannot be written: 0 if its reader has closed the pipe."""
    show_error(error)
    return 0 if isinstance(error, BrokenPipeError) else 2


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


def _show_version(wanted: bool) -> None:
    if wanted:
        say(f"gappletron {__version__}")
        raise typer.Exit


@app.callback()
def take_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options of the command itself."""
