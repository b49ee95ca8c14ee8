"""What ``--help`` shows: the usage, the arguments and options in groups, and examples, as wide as the terminal.

Typer's own help cuts sentences, and shows the types of Python.
"""

from __future__ import annotations

import re
import sys
import textwrap
from typing import Any

import typer.core

from gappletron.base.tables import find_width

# No help is wider, since long lines are hard to read; and what a file or a pipe gets.
WIDEST = 100
PLAIN = 80
# Where less is left for the explanation of an option, it begins on a line of its own.
LEAST = 30
OPTIONS = "Options"


class Command(typer.core.TyperCommand):
    """A command with such a help; its epilog is a list of examples, one per line."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        width = choose_width()
        lines = [*_wrap(f"Usage: {ctx.command_path} {_write_usage(self)}", width), ""]
        lines += _write_paragraphs(self.help or "", width)
        arguments: list[Any] = [each for each in self.params if each.param_type_name == "argument"]
        if arguments:
            rows = [(_find_metavar(each), each.help or "") for each in arguments]
            lines += ["Arguments", *write_list(rows, width), ""]
        lines += _write_options(self, ctx, width)
        if self.epilog:
            examples = [_write_example(line, width) for line in self.epilog.splitlines()]
            lines += ["Examples", *(part for example in examples for part in example)]
        formatter.write("\n".join(lines).rstrip() + "\n")


class Group(typer.core.TyperGroup):
    """A command with commands, which are listed in groups with their whole first sentence."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        width = choose_width()
        lines = [
            *_wrap(f"Usage: {ctx.command_path} COMMAND ...", width),
            "",
            *_write_paragraphs(self.help or "", width),
        ]
        groups: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            about: Any = command
            panel = about.rich_help_panel
            title = panel if isinstance(panel, str) else "Commands"
            groups.setdefault(title, []).append((name, first_sentence(command.help or "")))
        column = max(len(name) for rows in groups.values() for name, _ in rows) + 2
        for title, rows in groups.items():
            lines += [title, *write_list(rows, width, column), ""]
        lines += _write_options(self, ctx, width)
        lines += _wrap(f"{ctx.command_path} COMMAND --help says more, with examples.", width)
        formatter.write("\n".join(lines).rstrip() + "\n")


def choose_width() -> int:
    """Return how wide the help is."""
    return min(find_width(sys.stdout) or PLAIN, WIDEST)


def first_sentence(text: str) -> str:
    """Return the first sentence of a help.

    >>> first_sentence("Copy an SQLite file, e.g. a.sqlite; it may be open. Then\\nmore.")
    'Copy an SQLite file, e.g. a.sqlite; it may be open.'
    """
    flat = " ".join(text.split("\n\n", maxsplit=1)[0].split())
    return re.split(r"(?<=\.) (?=[A-Z])", flat, maxsplit=1)[0]


def write_list(rows: list[tuple[str, str]], width: int, column: int = 0) -> list[str]:
    """Return lines with names and what is said of each.

    >>> write_list([("--seed NUMBER", "The seed."), ("-h", "Show this.")], 80)
    ['  --seed NUMBER  The seed.', '  -h             Show this.']
    """
    column = column or min(max(len(name) for name, _ in rows) + 2, 28)
    lines: list[str] = []
    for name, text in rows:
        if width - 2 - column < LEAST:
            lines += [*_wrap(f"  {name}", width, 4), *_wrap(f"      {text}", width, 6)]
            continue
        said = _wrap(text, width - 2 - column) or [""]
        if len(name) + 2 > column:
            lines.append(f"  {name}")
        else:
            lines.append(f"  {name:<{column}}{said.pop(0)}")
        lines += [" " * (2 + column) + line for line in said]
    return [line.rstrip() for line in lines]


def _wrap(text: str, width: int, indent: int | None = None) -> list[str]:
    """Return the lines of a text; those from the second on begin with so many spaces, by default as the first."""
    head = " " * (len(text) - len(text.lstrip()))
    rest = head if indent is None else " " * indent
    return textwrap.wrap(
        text.strip(),
        max(width, len(rest) + 1),
        initial_indent=head,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _write_example(line: str, width: int) -> list[str]:
    """Return a command, to be pasted as it is: lines that go on end with a backslash."""
    *before, last = _wrap(f"  {line}", width - 2, 6)
    return [*(f"{part} \\" for part in before), last]


def _write_paragraphs(text: str, width: int) -> list[str]:
    """Return the paragraphs of a docstring, each followed by an empty line."""
    flat = (" ".join(part.split()) for part in text.split("\n\n"))
    return [line for part in flat if part for line in [*_wrap(part, width), ""]]


def _find_metavar(parameter: Any) -> str:
    return parameter.metavar or (parameter.name or "").upper()


def _write_usage(command: Any) -> str:
    arguments = " ".join(
        _find_metavar(each) if each.required else f"[{_find_metavar(each).strip('[]')}]"
        for each in command.params
        if each.param_type_name == "argument"
    )
    return f"{arguments} [OPTIONS]".strip()


def _write_options(command: Any, ctx: Any, width: int) -> list[str]:
    """Return the options by their groups, those without one last."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for each in command.get_params(ctx):
        if each.param_type_name != "argument" and not each.hidden:
            panel = getattr(each, "rich_help_panel", None)
            title = panel if isinstance(panel, str) else OPTIONS
            names = ", ".join([*sorted(each.opts, key=len), *each.secondary_opts])
            shown = names if each.is_flag else f"{names} {_find_metavar(each)}"
            groups.setdefault(title, []).append((shown, each.help or ""))
    last = groups.pop(OPTIONS, [])
    groups |= {OPTIONS: last} if last else {}
    return [line for title, rows in groups.items() for line in [title, *write_list(rows, width), ""]]
