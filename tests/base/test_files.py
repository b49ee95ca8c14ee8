"""Files written whole or not at all, and what killed processes leave behind."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time

from gappletron.base.files import check_writable, replacing

WRITER = """
    import sys, time
    from gappletron.base.files import replacing
    with replacing(sys.argv[1]) as file:
        file.write(b"half")
        file.flush()
        print("writing", flush=True)
        time.sleep(60)
"""


def writer(path):
    """A process that is in the middle of writing a file."""
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(WRITER), str(path)], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"writing\n"
    return process


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def parts(folder):
    return [name for name in names(folder) if name.endswith(".part")]


def let_age(path):
    earlier = time.time() - 4_000
    os.utime(path, (earlier, earlier), follow_symlinks=False)


def test_what_a_killed_writer_left_is_removed_after_an_hour_and_what_another_writes_is_not(tmp_path):
    path, other = tmp_path / "model.npz", tmp_path / "other.npz"
    killed, of_other = writer(path), writer(other)
    for process in (killed, of_other):
        process.kill()
        process.wait()
        process.stdout.close()
    abandoned = list(tmp_path.iterdir())
    running = writer(path)
    for part in abandoned:
        let_age(part)
    try:
        assert len(parts(tmp_path)) == 3
        with replacing(path) as file:
            file.write(b"whole")
        assert path.read_bytes() == b"whole"
        assert len(parts(tmp_path)) == 2  # of the writer that runs, and of another file
        with replacing(other) as file:
            file.write(b"other")
        assert len(parts(tmp_path)) == 1
    finally:
        running.kill()
        running.wait()
        running.stdout.close()


def test_only_our_temporary_files_are_removed(tmp_path):
    kept = [".model.npz.backup.part", ".model.npz.x.part", "model.npz.abcdefgh.part", ".model.npzabcdefgh.part"]
    for name in kept:
        (tmp_path / name).write_text("")
    target = tmp_path / "important"
    target.write_text("kept")
    (tmp_path / ".model.npz.linklink.part").symlink_to(target)
    os.mkfifo(tmp_path / ".model.npz.pipepipe.part")
    (tmp_path / ".model.npz.abcdefgh.part").write_text("")
    for path in tmp_path.iterdir():
        let_age(path)
    with replacing(tmp_path / "model.npz") as file:
        file.write(b"whole")
    assert parts(tmp_path) == sorted([*kept, ".model.npz.linklink.part", ".model.npz.pipepipe.part"])
    assert target.read_text() == "kept"


def test_many_writers_of_one_file_do_not_disturb_each_other(tmp_path):
    path, wrong = tmp_path / "model.npz", []

    def write(number):
        try:
            for _ in range(50):
                with replacing(path) as file:
                    file.write(bytes([number]) * 1000)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(set(path.read_bytes())) == 1
    assert names(tmp_path) == ["model.npz"]


def test_a_check_leaves_nothing(tmp_path):
    check_writable(tmp_path / "model.npz")
    assert names(tmp_path) == []
