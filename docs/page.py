"""Draws docs/service.png, the page of a mail filter with a challenger. Run it as `python docs/page.py`.

It plays two minutes of mail, and needs Chromium.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from gappletron import UNSEEN
from gappletron.service.client import Client

PICTURE = Path(__file__).with_name("service.png")
ADDRESS = "http://127.0.0.1:8097"
SERVE = "mail-filter.sqlite challenger.sqlite --shadow challenger=mail-filter --learner challenger=one-against-all"
OPTIONS = "--graph filtering --classes ham,spam --text message --min-propensity 0.02 --durability os --port 8097"
SECONDS = 120

HAM = ["meeting", "notes", "lunch", "tomorrow", "project", "report", "family", "dinner", "invoice", "minutes"]
SPAM = ["win", "prize", "cheap", "pills", "offer", "credit", "lottery", "click", "free", "winner"]
LATER = ["crypto", "wallet", "bonus", "unlock", "verify", "account", "parcel", "customs", "gift", "voucher"]


def write_mails(draw: random.Random, campaign: list[str], count: int) -> Iterator[tuple[str, str]]:
    """Yield mails with their labels; most words are those of the label."""
    for _ in range(count):
        label = "spam" if draw.random() < 0.35 else "ham"
        words = [draw.choice(campaign if (label == "spam") == (draw.random() < 0.8) else HAM) for _ in range(5)]
        yield " ".join(words), label


def play_mail(client: Client) -> None:
    """Decide on mail, with late feedback; after half of the time other spam comes, and more is explored."""
    draw, begin, due = random.Random(0), time.monotonic(), []
    is_late = False
    while (passed := time.monotonic() - begin) < SECONDS:
        if passed > SECONDS / 2 and not is_late:
            is_late = True
            client.set_limits(min_propensity=0.05)
        mails = list(write_mails(draw, LATER if is_late else SPAM, 25))
        decisions = client.act_many([{"message": text} for text, _ in mails])
        due += [(each, label if each.reveals else UNSEEN) for each, (_, label) in zip(decisions, mails, strict=True)]
        if len(due) > 400:
            client.learn_many(due[:25])
            del due[:25]
        time.sleep(0.1)


def main() -> None:
    """Serve, play and draw."""
    browser = next(found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name)))
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "gappletron", "serve", *SERVE.split(), *OPTIONS.split()]
        server = subprocess.Popen(command, cwd=folder)
        try:
            with Client(ADDRESS, retries=20) as client:
                play_mail(client)
            look = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/browser"]
            look += ["--hide-scrollbars", "--window-size=1180,1240", "--virtual-time-budget=5000"]
            subprocess.run([*look, f"--screenshot={PICTURE}", ADDRESS], check=True)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
