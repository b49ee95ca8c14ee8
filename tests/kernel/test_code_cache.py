"""The on-disk cache of machine code: what is damaged or old is never run."""

from __future__ import annotations

import errno

import numba
import pytest

from gappletron.kernel import compiling
from gappletron.kernel.compiling import COMPILED, source_hash
from storms import cached_code, doubled, shifted


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A folder of its own for the cache, with the code of one function in it."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    code = cached_code(doubled)
    assert (code(4), sum(code.stats.cache_misses.values())) == (8, 1)
    (folder,) = tmp_path.iterdir()
    return folder


def cached_file(folder):
    (path,) = folder.iterdir()
    assert path.suffix == ".nbc"
    return path


def assert_compiled_again(folder):
    """The code is compiled again, works, and is found by the next process; no other file is left."""
    for misses in (1, 0):
        code = cached_code(doubled)
        assert code(4) == 8
        assert sum(code.stats.cache_misses.values()) == misses
        assert sum(code.stats.cache_hits.values()) == 1 - misses
    cached_file(folder)


def test_good_files_are_used(cache):
    path = cached_file(cache)
    before = path.stat().st_mtime_ns, path.read_bytes()
    code = cached_code(doubled)
    assert (code(4), sum(code.stats.cache_hits.values())) == (8, 1)
    assert (path.stat().st_mtime_ns, path.read_bytes()) == before


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:20],
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: data[:-40] + bytes([data[-40] ^ 1]) + data[-39:],
        lambda data: bytes([data[0] ^ 128]) + data[1:],
        lambda data: b"\x80\x04" * 500,
    ],
)
def test_a_damaged_file_is_compiled_again_and_replaced(cache, damage):
    path = cached_file(cache)
    path.write_bytes(damage(path.read_bytes()))
    assert_compiled_again(cache)


def test_a_missing_file_is_compiled_again(cache):
    cached_file(cache).unlink()
    assert_compiled_again(cache)


def test_the_file_of_another_function_does_not_stand_in(cache):
    mine = cached_file(cache)
    assert cached_code(shifted)(4) == 5
    next(path for path in cache.iterdir() if "shifted" in path.name).replace(mine)
    assert_compiled_again(cache)


def test_the_file_of_another_signature_does_not_stand_in(cache):
    mine = cached_file(cache)
    assert cached_code(doubled)(0.25) == 0.5
    next(path for path in cache.iterdir() if path != mine).replace(mine)
    assert_compiled_again(cache)


def test_files_of_older_sources_are_removed(cache):
    path = cached_file(cache)
    older = path.name.replace(source_hash(*COMPILED), "0123456789abcdef")
    gone = [older, f"{older}.tmp.0123456789abcdef", older.replace("doubled", "renamed")]
    kept = ["module.cpython-311.pyc", "other.function-12.py311.nbi", "other.function-12.py311.1.nbc"]
    for name in gone + kept:
        (cache / name).write_bytes(b"")
    compiling.remove_older.cache_clear()  # as a new process would
    cached_code(shifted)(4)
    names = {path.name for path in cache.iterdir()}
    assert names.isdisjoint(gone)
    assert names.issuperset(kept)
    assert path.name in names


def test_a_cache_that_cannot_be_written_stops_nothing(cache, monkeypatch):
    cached_file(cache).write_bytes(b"")

    def full(self, path):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(compiling.CheckedFiles, "_open_for_write", full)
    assert cached_code(doubled)(4) == 8
