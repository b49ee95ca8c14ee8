"""The command line: ``gappletron run``, ``teach``, ``predict``, ``explain``, ``serve``, ``store`` and others.

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
from gappletron.cli.help import Command, Group
from gappletron.cli.options import take_groups
from gappletron.cli.output import say, show_error, show_log, tell

# UsageError of click, of which some versions of typer contain a copy.
USAGE_ERROR: Any = typer.BadParameter.__mro__[1]

# What packages are called whose modules have another name.
PACKAGES = {"sklearn": "scikit-learn"}

# The commands in the order in which people need them; each is a module with a function of its name, and examples.
COMMANDS = {
    "Try it": "demo run learners graph",
    "Your own model": "teach predict explain weights",
    "In production": "serve fleet replay compile store",
    "The paper": "reproduce export bound",
}
HELP = {"help_option_names": ["-h", "--help"]}
# What a bare `gappletron` shows.
BEGIN = """\
Gappletron: online classification when what you see depends on what you predict.

Where to begin:
  gappletron demo                 see it at work: two data sets and a picture
  gappletron run FILE --label COLUMN --graph filtering
                                  try it on a table of your own
  gappletron serve mail.sqlite --graph filtering --classes ham,spam
                                  decisions over HTTP, stored in a file

  gappletron help                 all commands
  gappletron help run             one command, with examples"""

app = typer.Typer(
    cls=Group,
    context_settings=HELP,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Online classification when what you see depends on what you predict.",
)
for title, names in COMMANDS.items():
    for name in names.split():
        module = import_module(f"gappletron.cli.{name}")
        if name == "store":
            app.add_typer(module.store, name=name, rich_help_panel=title)
        else:
            add = app.command(name, cls=Command, epilog=module.EXAMPLES, context_settings=HELP, rich_help_panel=title)
            add(take_groups(getattr(module, name)))


def main() -> None:
    """Run the ``gappletron`` command."""
    sys.stdout, sys.stderr = sys.stdout or _nowhere(), sys.stderr or _nowhere()  # None where they are closed
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a file's name need not fit the terminal's encoding
    os.environ.pop("MPLBACKEND", None)  # no window is opened, and a wrong value would prevent importing matplotlib
    show_log()
    code = run_command(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            code = code or _write_error(error)
            os.dup2(_nowhere().fileno(), stream.fileno())  # Python flushes once more at exit
    sys.exit(code)


def run_command(arguments: list[str]) -> int:
    """Run a command, and return its exit code."""
    first, *others = arguments or [""]
    if first == "help":
        arguments = [*others, "--help"]
    elif first == "version":
        arguments = ["--version", *others]
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
        message = " ".join(error.format_message().split())
        message = f"{message} See" if message.endswith("?") else f"{message.rstrip('.')}: see"
        tell(f"gappletron: {message} {command} --help")
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


@app.callback(invoke_without_command=True)
def take_options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Without a command, show where to begin."""
    if context.invoked_subcommand is None:
        print(BEGIN)  # as it is: its commands are to be pasted
