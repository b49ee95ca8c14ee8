"""Fuzz a target under atheris, interpreted: ``python tests/fuzz/run.py TARGET [options of libFuzzer] [folders]``."""

import sys
from pathlib import Path


def limit_memory(more):
    """Let the process take so many bytes more than it has now: a larger allocation is a MemoryError.

    libFuzzer's own limits do not see what Python and NumPy allocate.
    """
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


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

    limit_memory(2 << 30)
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
