"""Draws docs/demo.png, the picture of the README. Run it as `python docs/demo.py`."""

from __future__ import annotations

from pathlib import Path

from gappletron.cli.demo import draw, list_comparisons

PICTURE = Path(__file__).with_name("demo.png")

if __name__ == "__main__":
    comparison = list_comparisons(orders=20)[0]
    for _ in comparison:
        pass
    draw([comparison.histories()], PICTURE)
