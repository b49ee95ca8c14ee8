"""Tables and sentences for a terminal: every line fits, and no number is ever cut.

Where a table is too wide, the names in its first column are written on several lines, and columns are left out. Where
every column matters, as in a matrix, those that have no room follow below.
"""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from html import escape
from typing import TextIO

# A first column is not made narrower than this, unless its longest name is shorter.
LEAST_FIRST = 12
GAP = "  "
# Columns are left out in this order, some together, and then from the right.
LEFT_OUT_FIRST = (
    {"ns per round"},
    {"naive"},
    {"true"},
    {"total cost"},
    {"min", "max"},
    {"needless biopsies"},
    {"value"},
    {"cancers missed"},
    {"labels seen"},
)


def make_html(header: Iterable[str], rows: Iterable[Iterable[str]], title: str = "") -> str:
    """Return a table for a notebook; the first column is a name, the others are numbers.

    >>> make_html(("learner", "error"), [("<auto>", "0.05")])
    '<table><tr><th>learner</th><th>error</th></tr><tr><td>&lt;auto&gt;</td><td>0.05</td></tr></table>'
    """
    lines = ["".join(f"<th>{escape(name)}</th>" for name in header)]
    lines += ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
    head = f"<p>{escape(title)}</p>" if title else ""
    return f"{head}<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def find_width(stream: TextIO) -> int | None:
    """Return how many characters a line may have: COLUMNS, or what the terminal has; None for files and pipes."""
    given = os.environ.get("COLUMNS", "")
    if given.isdigit() and int(given) > 0:
        return int(given)
    return shutil.get_terminal_size().columns if stream.isatty() else None


def wrap(text: str, width: int | None) -> str:
    """Return a text whose lines fit, but for words that are longer; what continues a line is indented.

    >>> print(wrap("the results are in results/report.html", 24))
    the results are in
      results/report.html
    """
    if width is None:
        return text
    return "\n".join(
        part for line in text.split("\n") for part in ([line] if len(line) <= width else _wrap_line(line, width))
    )


def _wrap_line(line: str, width: int) -> list[str]:
    indent = line[: len(line) - len(line.lstrip())]
    return _wrap_words(line.lstrip(), width, indent, indent + GAP)


def _wrap_words(text: str, width: int, first: str = "", others: str = "") -> list[str]:
    return textwrap.wrap(
        text,
        max(width, len(others) + 1),
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )


def align(header: Sequence[str], rows: Iterable[Sequence[str]], width: int | None = None) -> list[str]:
    """Return the lines of a table: the first column to the left, the others to the right.

    >>> for line in align(("learner", "mean error", "min"), [("gapsmh:gamma=2", "0.0876", "0.0576")], 26):
    ...     print(line)
    learner         mean error
    --------------  ----------
    gapsmh:gamma=2      0.0876
    <BLANKLINE>
    left out: min
    """
    table = [tuple(header), *map(tuple, rows)]
    shown = list(range(len(header)))
    sizes = [max(len(row[place]) for row in table) for place in shown]
    longest_word = max(len(word) for row in table for word in row[0].split() or [""])
    least = min(sizes[0], max(LEAST_FIRST, longest_word))
    while width is not None and len(shown) > 2 and _measure(shown, [least, *sizes[1:]]) > width:
        shown = _leave_out(header, shown)
    if width is not None:
        sizes[0] = max(least, min(sizes[0], width - _measure(shown, [0, *sizes[1:]])))
    lines = [line for row in table[:1] for line in _write_row(row, shown, sizes)]
    lines.append(GAP.join("-" * sizes[place] for place in shown))
    lines += [line for row in table[1:] for line in _write_row(row, shown, sizes)]
    missing = [name for place, name in enumerate(header) if place not in shown]
    return [*lines, "", *_wrap_words(f"left out: {', '.join(missing)}", width or 0)] if missing else lines


def _measure(shown: Sequence[int], sizes: Sequence[int]) -> int:
    return sum(sizes[place] for place in shown) + len(GAP) * (len(shown) - 1)


def _leave_out(header: Sequence[str], shown: list[int]) -> list[int]:
    """Return the columns without those that are left out next; the first two stay."""
    for names in LEFT_OUT_FIRST:
        kept = [place for place in shown if header[place] not in names or place < 2]
        if len(kept) < len(shown):
            return kept
    return shown[:-1]


def _write_row(row: Sequence[str], shown: Sequence[int], sizes: Sequence[int]) -> list[str]:
    """Return a row, whose name may take several lines."""
    name = [row[0]] if len(row[0]) <= sizes[0] else _wrap_words(row[0], sizes[0], "", " ")
    cells = "".join(GAP + row[place].rjust(sizes[place]) for place in shown[1:])
    return [*(part.rstrip() for part in name[:-1]), f"{name[-1]:<{sizes[0]}}{cells}".rstrip()]


def split(header: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """As :func:`align` for a table of which every column matters: those that do not fit follow below the first ones.

    >>> for line in split(("action", "ham", "spam", "other"), [("ham", "12", "3", "1")], 14):
    ...     print(line)
    action  ham
    ------  ---
    ham      12
    <BLANKLINE>
    action  spam
    ------  ----
    ham        3
    <BLANKLINE>
    action  other
    ------  -----
    ham         1
    """
    table = [tuple(header), *map(tuple, rows)]
    sizes = [max(len(row[place]) for row in table) for place in range(len(header))]
    blocks: list[list[int]] = [[0]]
    for place in range(1, len(header)):
        if width is not None and len(blocks[-1]) > 1 and _measure([*blocks[-1], place], sizes) > width:
            blocks.append([0])
        blocks[-1].append(place)
    lines: list[str] = []
    for block in blocks:
        part = [[row[place] for place in block] for row in table]
        lines += ["", *align(part[0], part[1:])]
    return lines[1:]
