"""Fuzz a target under atheris, interpreted: ``python tests/fuzz/run.py TARGET [options of libFuzzer] [folders]``."""

import sys


def main():
    """Hand the target to libFuzzer, which ends the process."""
    import atheris

    with atheris.instrument_imports(include=["gappletron", "targets"]):
        import targets
    from gappletron import interpreted

    name = sys.argv.pop(1)

    def one(data):
        with interpreted():
            targets.TARGETS[name](data)

    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
