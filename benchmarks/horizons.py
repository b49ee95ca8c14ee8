"""The claims of the paper at two numbers of rounds, side by side, as the table of docs/claims.md.

    gappletron reproduce --out results
    gappletron reproduce --rounds 1000000 --out results/million
    python benchmarks/horizons.py results results/million [--write]

Without --write the table is printed. The second command plays about ten times as many rounds as the first.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from gappletron import read_results
from gappletron.paper.claims import CLAIMS, OURS, Verdict, judge_claims
from gappletron.paper.results import Result, Summary

PAGE = Path(__file__).parent.parent / "docs" / "claims.md"
BEGIN, END = "<!-- horizons -->\n", "<!-- end of horizons -->\n"


def show(verdict: Verdict | None) -> str:
    """A cell of the table: whether the claim holds, and in how many cells its rule is true."""
    if verdict is None:
        return "not run"
    count = (
        verdict.text.split("; ")[0].removeprefix("holds in ").removeprefix("holds: ").removeprefix("does not hold: ")
    )
    return f"{'**holds**' if verdict.holds else 'does not hold'} ({count})"


def describe(results: list[Result]) -> str:
    """The horizon of a folder, for the head of its column."""
    return f"T = {max(result.task.rounds for result in results):,}"


def make_table(folders: list[Path]) -> str:
    """The table, with a sentence on how many claims hold."""
    stored = [read_results(folder) for folder in folders]
    found = [{each.claim.id: each for each in judge_claims(Summary(results))} for results in stored]
    heads = [describe(results) for results in stored]
    papers = [[each for each in verdicts.values() if each.claim.source != OURS] for verdicts in found]
    counts = [f"{sum(each.holds for each in paper)} of {len(paper)}" for paper in papers]
    lines = [
        "Claims of the paper that hold: "
        + ", ".join(f"{count} at {head}" for count, head in zip(counts, heads, strict=True))
        + ".",
        "",
        f"| Claim | {' | '.join(heads)} |",
        "| --- |" + " --- |" * len(heads),
    ]
    for claim in CLAIMS:
        cells = [show(verdicts.get(claim.id)) for verdicts in found]
        lines.append(f"| `{claim.id}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs=2, type=Path)
    parser.add_argument("--write", action="store_true", help="write the table to docs/claims.md")
    given = parser.parse_args()
    table = make_table(given.folders)
    if not given.write:
        print(table)
        return
    text = PAGE.read_text(encoding="utf-8")
    text, places = re.subn(f"{BEGIN}.*{END}", lambda _: BEGIN + table + END, text, flags=re.DOTALL)
    assert places == 1, f"{PAGE} has no place for the table"
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
