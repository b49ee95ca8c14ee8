"""Fuzz a target under atheris, interpreted: ``python tests/fuzz/run.py TARGET [options of libFuzzer] [folders]``."""

import sys

import atheris

with atheris.instrument_imports(include=["gappletron", "targets"]):
    import targets

from gappletron import interpreted

name = sys.argv.pop(1)


def one(data):
    """What libFuzzer calls."""
    with interpreted():
        targets.TARGETS[name](data)


atheris.Setup(sys.argv, one)
atheris.Fuzz()
