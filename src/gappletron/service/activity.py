"""What happened lately: decisions per second, and how long feedback takes."""

import statistics
import time
from collections import deque

# Seconds of which the number of decisions is kept, and pieces of feedback of which the delay is kept.
SECONDS = 120
DELAYS = 1000


class Activity:
    """Counts the decisions in each of the last seconds.

    >>> activity = Activity()
    >>> activity.count(3, now=100.2), activity.count(1, now=100.9), activity.count(5, now=102.0)
    (None, None, None)
    >>> activity.last(3, now=103.5)
    [4, 0, 5]
    """

    def __init__(self) -> None:
        self._seconds: deque[tuple[int, int]] = deque(maxlen=SECONDS + 1)

    def count(self, decisions: int, now: float | None = None) -> None:
        """Add decisions to the present second."""
        second = int(time.monotonic() if now is None else now)
        if self._seconds and self._seconds[-1][0] == second:
            decisions += self._seconds.pop()[1]
        self._seconds.append((second, decisions))

    def last(self, seconds: int, now: float | None = None) -> list[int]:
        """Return the decisions in each of the last full seconds, the oldest first."""
        present = int(time.monotonic() if now is None else now)
        found = dict(self._seconds)
        return [found.get(second, 0) for second in range(present - seconds, present)]


class Delays:
    """Keeps how long the last pieces of feedback took, in seconds since the decision.

    >>> delays = Delays()
    >>> delays.add(100.0, 160.0), delays.add(130.0, 150.0), delays.add(140.0, 240.0)
    (None, None, None)
    >>> delays.describe(now=300.0)
    {'last': 60.0, 'median': 60.0, 'longest': 100.0}
    """

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=DELAYS)
        self._last = 0.0

    def add(self, decided: float, now: float) -> None:
        """Add a piece of feedback that comes now."""
        self._seconds.append(max(0.0, now - decided))
        self._last = now

    def describe(self, now: float) -> dict[str, float] | None:
        """Return the seconds since the last feedback, and the median and longest delay; None if there was none."""
        if not self._seconds:
            return None
        return {
            "last": max(0.0, now - self._last),
            "median": statistics.median(self._seconds),
            "longest": max(self._seconds),
        }
