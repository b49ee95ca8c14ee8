"""Another process that does jobs, one after the other, while this one goes on.

Jobs are files of a folder that only this user can read, done in the order of their names. The other process removes
what it begins, and the folder when nothing is left in it: then it ends, and what comes later needs a new process. It
finishes what it was sent also where the process that sent it has ended: the next one finds the results.
"""

import contextlib
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

# With the value 0 of this variable of the environment, no process is started: everything is compiled where it is used.
VARIABLE = "GAPPLETRON_BACKGROUND"


def is_allowed() -> bool:
    """Return whether work may be given to another process."""
    is_python = bool(sys.executable) and not getattr(sys, "frozen", False)  # not so in a program that contains Python
    return is_python and os.environ.get(VARIABLE) != "0"


class Worker:
    """A process that does what it is sent, and ends.

    :param environment: variables that it needs besides those of this process.
    """

    def __init__(self, environment: dict[str, str]) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="gappletron-"))
        self._jobs = self._folder / "jobs"
        self._jobs.mkdir()
        self._environment, self._sent = environment, 0
        self._process: subprocess.Popen[bytes] | None = None

    def send(self, job: Callable[[], object]) -> None:
        """Let the process do a job that can be pickled; an OSError where it has ended, or cannot be started."""
        self._sent += 1
        written = self._folder / "new"
        written.write_bytes(pickle.dumps(job))
        written.rename(self._jobs / f"{self._sent:09d}")
        if self._process is None:
            try:
                self._process = self._start()
            except OSError:
                self.stop()
                raise

    def _start(self) -> "subprocess.Popen[bytes]":
        path = os.pathsep.join(filter(None, sys.path))
        return subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(self._jobs)],  # -P: the present folder is no place for modules
            env={**os.environ, "PYTHONPATH": path, VARIABLE: "0", **self._environment},
            start_new_session=True,  # Ctrl-C goes to the process that waits
            **dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL),  # type: ignore[call-overload]
        )

    def is_at_work(self) -> bool:
        """Return whether the process has not ended yet."""
        if self._process is not None and self._process.poll() is None:
            return True
        self.stop()  # one that was killed leaves its folder
        return False

    def stop(self) -> None:
        """End the process, whatever it was sent."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def work_through(folder: Path) -> None:
    """Do the jobs of a folder until there are none, and remove it."""
    while True:
        for path in sorted(folder.iterdir()):
            job = pickle.loads(path.read_bytes())
            path.unlink()
            job()
        with contextlib.suppress(OSError):  # a job has come in the meantime
            folder.rmdir()
            shutil.rmtree(folder.parent, ignore_errors=True)
            return


if __name__ == "__main__":
    work_through(Path(sys.argv[1]))
