"""The page in a browser: its figures move, its form works, it fits a phone, and its policy lets it run."""

from __future__ import annotations

import html
import itertools
import json
import re
import shutil
import subprocess

import pytest

from gappletron import UNSEEN, Budget, FeedbackGraph, Greedy, Guarded, Online
from gappletron.play import few_labels
from gappletron.service.app import create_app
from gappletron.service.client import Client
from gappletron.service.models import HostedModel
from servers import mail_model, running

TOKEN = "0123456789abcdef"

DRIVER = """
<pre id="report"></pre>
<script>
(async () => {
  const text = name => document.getElementById(name).textContent;
  const hidden = name => document.getElementById(name).classList.contains("hidden");
  const until = async (what, test) => {
    for (let time = 0; time < 400; time++) { if (test()) return; await new Promise(done => setTimeout(done, 25)); }
    throw new Error("waited in vain for " + what + ": " + text("outcome") + text("live"));
  };
  const seen = {};
  try {
    if (location.search === "?token") {
      await until("the login", () => !hidden("login"));
      seen.shown = !hidden("content");
      seen.complaint = !hidden("login-wrong");
      document.getElementById("token").value = "another-token-of-mine";
      document.querySelector("#login-form button").click();
      await until("the complaint", () => !hidden("login-wrong"));
      document.getElementById("token").value = "TOKEN";
      document.querySelector("#login-form button").click();
    }
    await until("the content", () => !hidden("content"));
    seen.before = [text("rate-more"), text("waiting"), text("seen"), text("error"), text("error-more")];
    seen.verdict = text("verdict");
    seen.drift = text("drift");
    seen.delay = text("waiting-delay");
    seen.start = hidden("start");
    seen.curve = document.querySelectorAll("#curve path").length;
    seen.actions = document.querySelectorAll("#actions .name").length;
    seen.ticks = [...document.querySelectorAll("#curve text")].map(
      each => each.textContent).filter(each => each.endsWith("%"));
    const box = document.querySelector("#curve clipPath rect").getBBox();
    const lines = [...document.querySelectorAll('#curve g path[fill="none"]')].filter(each => each.getAttribute("d"));
    seen.cut = lines.filter(each => each.getBBox().y < box.y - 1 || each.getBBox().x < box.x - 1).length;
    seen.bars = [...document.querySelectorAll("#actions .fill")].map(each => parseFloat(each.style.width));
    seen.example = document.getElementById("x").value;
    seen.limits = [text("explored-limits"), text("waiting-limits")];
    seen.columns = hidden("columns") ? null : text("columns-about");
    seen.problem = hidden("problem") ? null : text("problem-text");
    document.getElementById("x").value = JSON.stringify({message: "see you at five"});
    document.getElementById("predict").click();
    await until("a prediction", () => text("outcome").startsWith("Predicted"));
    seen.predicted = text("outcome");
    document.getElementById("explain").click();
    await until("an explanation", () => text("outcome").includes("not "));
    seen.explained = [...document.querySelectorAll("#outcome tbody tr")].map(row => row.firstChild.textContent);
    document.getElementById("act").click();
    await until("a decision", () => text("outcome").startsWith("Decided"));
    await until("one more", () => text("rate-more") !== seen.before[0]);
    seen.during = [text("rate-more"), text("waiting")];
    document.querySelector("#outcome .buttons button").click();
    await until("thanks", () => /^(Learned|Noted)/.test(text("outcome")));
    await until("none waiting", () => text("waiting") === seen.before[1]);
    document.getElementById("x").value = "{";
    document.getElementById("predict").click();
    await until("an error", () => text("outcome").startsWith("This is not JSON"));
    document.getElementById("x").value = '{"a": 1e60}';
    document.getElementById("act").click();
    await until("the sentence", () => text("outcome").startsWith("the column 'a'"));
    const page = document.documentElement;
    seen.sideways = page.scrollWidth - page.clientWidth;
    seen.width = page.clientWidth;
    seen.small = [...document.querySelectorAll("main *")].filter(
      element => element.childNodes.length === 1 && element.firstChild.nodeType === 3
        && parseFloat(getComputedStyle(element).fontSize) < 12).length;
    const named = element => element.textContent.trim() || element.closest("label") || element.ariaLabel;
    seen.unlabelled = [...document.querySelectorAll("button, textarea, input, main svg")].filter(
      element => !named(element)).length;
  } catch (error) { seen.failure = String(error); }
  document.getElementById("report").textContent = JSON.stringify(seen);
  if (parent !== window) parent.document.body.append(document.getElementById("report").cloneNode(true));
})();
</script>
"""


class Driven:
    """The application, and its page with a script that uses it; in a frame of the width of a phone at /phone."""

    def __init__(self, app, driver=DRIVER):
        self.app, self.driver = app, driver

    async def __call__(self, scope, receive, send):
        if scope["path"] not in ("/driven", "/phone"):
            await self.app(scope, receive, send)
            return
        sent = []

        async def collect(message):
            sent.append(message)

        await self.app({**scope, "path": "/"}, receive, collect)
        body = sent[1]["body"] + self.driver.replace("TOKEN", TOKEN).encode()
        if scope["path"] == "/phone":
            body = b'<!doctype html><iframe src="/driven" style="width: 360px; height: 800px; border: 0"></iframe>'
        headers = [(b"content-type", b"text/html"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def shown(address, folder):
    """The page after some seconds of the browser's clock."""
    browser = next(
        (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
    )
    if browser is None:
        pytest.skip("no Chromium on this machine")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}"]
    command += ["--window-size=1300,900", "--virtual-time-budget=20000", "--dump-dom", address]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


@pytest.fixture
def model(tmp_path):
    limits = {"min_propensity": 0.02, "budget": Budget(5, per="day", prices={"spam": 0.0, "ham": 0.0})}
    with mail_model(tmp_path / "mail", durability="os", **limits) as model:
        yield model


ASKING = """
<pre id="report"></pre>
<script>
(async () => {
  const text = name => document.getElementById(name).textContent;
  const until = async test => {
    for (let time = 0; time < 400 && !test(); time++) await new Promise(done => setTimeout(done, 25));
  };
  await until(() => document.getElementById("x").value !== "");
  const seen = {example: document.getElementById("x").value, problem: text("problem-text")};
  document.getElementById("act").click();
  await until(() => text("outcome").startsWith("Decided"));
  seen.asked = text("outcome");
  seen.buttons = [...document.querySelectorAll("#outcome button")].map(each => each.textContent);
  document.querySelector("#outcome button:last-child").click();
  await until(() => text("outcome").startsWith("Noted"));
  seen.done = text("outcome");
  document.getElementById("report").textContent = JSON.stringify(seen);
})();
</script>
"""


def test_questions_fit_the_graph(tmp_path):
    """On a bandit graph an action shows only whether it is right; and the example fits a model of two numbers."""
    with Online.open(tmp_path / "m", graph=FeedbackGraph.bandit(["a", "b", "c"]), features=2, durability="os") as model:
        model._contents.journal.background_error = "the disk is full"
        with running(Driven(create_app([HostedModel("m", model)]), ASKING)) as address:
            dumped = shown(f"{address}/driven", tmp_path / "browser")
        seen = json.loads(re.findall(r'<pre id="report">(.+?)</pre>', dumped, re.DOTALL)[-1])
        assert json.loads(seen["example"]) == [1, 0.5]
        action = re.match("Decided: ([abc])", seen["asked"])[1]
        assert f"reveals only whether the label is {action}. Was it?" in seen["asked"]
        assert seen["buttons"] == [f"Yes, {action}", "No", "Forget it: no feedback will come"]
        assert seen["done"] == "Noted: no feedback will come."
        assert (model.rounds, model.waiting) == (1, 0)
        assert "the disk is full" in seen["problem"]


def play(address, rounds, token=None):
    with Client(address, token) as client:
        for n in range(rounds):
            decision = client.act({"message": "see you at five" if n % 3 else "win a prize"})
            client.learn(decision, ("ham" if n % 3 else "spam") if decision.reveals else UNSEEN)


@pytest.mark.parametrize(("path", "token"), [("/driven", None), ("/phone", None), ("/driven?token", TOKEN)])
def test_the_page_shows_and_does_what_it_says(model, tmp_path, path, token):
    tokens = [] if token is None else [token]
    with running(Driven(create_app([HostedModel("mail", model)], tokens=tokens))) as address:
        play(address, 45, token)
        dumped = shown(address + path, tmp_path / "browser")
    seen = json.loads(re.findall(r'<pre id="report">(.+?)</pre>', dumped, re.DOTALL)[-1].replace("&amp;", "&"))
    assert seen.get("failure") is None
    assert seen.get("shown", False) is False
    total, waiting, labels, error, interval = seen["before"]
    assert total == "45 in all"
    assert waiting == "0"
    assert int(labels) > 0
    assert re.fullmatch(r"[\d.]+ to [\d.]+%", error)  # after 45 rounds the range is wide
    assert re.fullmatch(r"estimate \d+\.\d+%", interval)
    assert re.fullmatch(r"OK: error between [\d.]+% and [\d.]+%, no drift, feedback is arriving\.", seen["verdict"])
    assert seen["drift"].startswith("Drift alarm: quiet.")
    assert seen["delay"].startswith("feedback comes after 0")
    assert seen["start"] is True
    assert seen["curve"] >= 5  # two bands, three lines
    assert seen["cut"] == 0
    ticks = [float(text.rstrip("%")) for text in seen["ticks"]]
    steps = {round(b - a, 6) for a, b in itertools.pairwise(ticks)}
    assert ticks[0] == 0
    assert len(steps) == 1
    assert steps <= {0.1, 0.2, 0.5, 1, 2, 5, 10, 20}
    assert sum(seen["bars"]) == pytest.approx(100)  # shares of the whole, not of the largest
    assert json.loads(seen["example"]).keys() == {"message"}  # what the encoder declares
    assert seen["limits"] == ["each label at least 2%; budget 0 of 5 per day", "up to 10,000 may wait"]
    assert seen["columns"].startswith("All records since the start")
    assert seen["problem"] is None
    assert seen.get("complaint", False) is False  # only after a wrong token
    assert seen["actions"] == 2
    assert seen["predicted"].startswith(f"Predicted: {model.predict({'message': 'see you at five'})}")
    assert {"message: see", "message: five", "bias", "sum"} <= set(seen["explained"])
    assert seen["during"] == ["46 in all", "1"]
    assert model.rounds == 46
    assert model.waiting == 0
    assert seen["sideways"] <= 0  # nothing sticks out: wide tables scroll in a box of their own
    assert seen["width"] <= (360 if path == "/phone" else 1300)
    assert seen["small"] == 0
    assert seen["unlabelled"] == 0


def test_the_page_runs_under_its_own_policy(model, tmp_path):
    with running(create_app([HostedModel("mail", model)])) as address:
        play(address, 12)
        dumped = shown(f"{address}/", tmp_path / "browser")
    assert '<span id="live">live</span>' in dumped
    assert "12 in all" in dumped


def test_an_empty_server_shows_a_command_that_works(model, tmp_path):
    if shutil.which("curl") is None:
        pytest.skip("the command needs curl")
    with running(create_app([HostedModel("mail", model)])) as address:
        dumped = shown(f"{address}/", tmp_path / "browser")
        assert ">Ready: no decision yet, no drift.<" in dumped
        command = html.unescape(re.search(r'<pre id="start-command">(.+?)</pre>', dumped, re.DOTALL)[1])
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["action"] in ("ham", "spam")
    assert model.rounds == 1


def test_the_page_tells_of_restarts_and_of_too_few_labels(tmp_path, monkeypatch):
    monkeypatch.setattr(few_labels, "MANY_ROUNDS", 10)
    graph = FeedbackGraph.label_efficient(["a", "b"])
    with Online.open(tmp_path / "m", Guarded(exploration=Greedy()), graph, 2, durability="os") as model:
        model.act_many([[1.0, 0.5]] * 100)  # most actions show nothing, and are judged at once
        model.reset()
        with running(create_app([HostedModel("m", model)])) as address:
            dumped = shown(f"{address}/", tmp_path / "browser")
    assert "The learner restarted after round 100 (it was reset)." in dumped
    assert "<title>round 100: restart: it was reset</title>" in dumped
    assert "No label was seen in" in dumped


def test_the_curve_marks_changes_of_limits(model, tmp_path):
    """The limits that a model began with are no change."""
    rows = [{"message": "see you at five"}] * 100
    model.act_many(rows)
    model.set_limits(min_propensity=0.1, budget=None)
    model.set_limits(min_propensity=0.1)
    model.act_many(rows)
    with running(create_app([HostedModel("mail", model)])) as address:
        dumped = shown(f"{address}/", tmp_path / "browser")
    assert re.findall(r"<title>[\d/:, ]+: (limits: .+?)</title>", dumped) == ["limits: each label at least 10%"]
