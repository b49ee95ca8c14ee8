"""Draws docs/demo.png, the picture of the README. Run it as `python docs/demo.py`."""

from __future__ import annotations

from pathlib import Path

from gappletron.cli.demo import Comparison, draw, list_settings

PICTURE = Path(__file__).with_name("demo.png")

if __name__ == "__main__":
    comparison = Comparison(list_settings()[0], orders=20)
    for _ in comparison:
        pass
    draw([comparison.histories()], PICTURE)
