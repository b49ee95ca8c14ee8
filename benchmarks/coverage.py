"""How often the intervals of a monitor hold, at every round, how wide they are, and how soon its alarm rings.

    python benchmarks/coverage.py [--runs R] [--rounds T] [--data FOLDER] [--only TABLE] [--write]

Prints the tables of docs/coverage.md and docs/monitoring.md, and with --write puts them there and draws
docs/monitoring.png; `--only power` makes that table alone, and so on. The first table plays rounds without a learner:
distributions, greedy classes and labels by the rules of SCENARIOS, some of which are made to mislead. After every
round each bound (those of classes after every eighth) is compared with the truth, which a monitor never sees. The
others play a learner on synthetic data and, where `../shared/data` lies beside the project, on SMS messages.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import numpy as np

from gappletron import FeedbackGraph, Monitor, Player, Synthetic, Watch, helper
from gappletron.data.open import open_stream
from gappletron.data.prepared import prepare_chunks
from gappletron.graphs.open import open_graph
from gappletron.kernel.compiling import entry
from gappletron.kernel.state import Sizes, State
from gappletron.play.monitor_state import (
    ALARM_SINCE,
    BLOCKS,
    SLOTS,
    bound_class_total,
    bound_total,
    share_alpha,
)
from gappletron.play.monitor_values import Played
from gappletron.play.rounds import draw, new_tally

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"limits": ROOT / "docs" / "monitoring.md"} | dict.fromkeys(
    ("coverage", "widths", "power"), ROOT / "docs" / "coverage.md"
)
PICTURE = ROOT / "docs" / "monitoring.png"
ROUNDING = 1e-7
CHECKS = 7
"""The checks before those of the classes: four totals, two windows, the alarm."""


def cover(watch, watched, plan, graph, P, greedy, labels, draws, adaptive, delay, actions, truth, recent, missed):
    """Play rounds whose feedback comes `delay` rounds late, and note in `missed` which bounds were ever wrong.

    With `adaptive` 1, the label of a round is the one of least propensity whenever the label before was hidden.
    """
    own, size = P[0, :0], watch.window // BLOCKS
    was_hidden = False
    for t in range(labels.size):
        watch.open_round(watched, t, 0.0)
        if adaptive and was_hidden:
            labels[t] = least_shown(graph, P[t])
        a = draw(P[t], draws[t])
        actions[t] = a
        was_hidden = not graph.visible[a, labels[t]]
        if t % size == 0:
            for i in range(2):
                recent[t // size % BLOCKS, i] = 0.0
        watch.note_action(watched, plan, graph, Played(t, P[t], own, greedy[t], a))
        if not plan.shows[a]:
            add_truth(graph, a, greedy[t], labels[t], truth, recent[t // size % BLOCKS])
        s = t - delay
        if s >= 0 and plan.shows[actions[s]]:
            y = labels[s]
            seen = y if graph.visible[actions[s], y] else -1
            watch.note_feedback(watched, plan, graph, Played(s, P[s], own, greedy[s], actions[s]), seen)
            slot = s // size % BLOCKS if s // size > t // size - BLOCKS else BLOCKS
            add_truth(graph, actions[s], greedy[s], y, truth, recent[slot])
        check_totals(watched, graph, watch.alpha, max(0, t // size - (BLOCKS - 1)), truth, recent, missed)
        if t % 8 == 7:
            check_classes(watched, graph, watch.alpha, truth, missed)


@helper
def least_shown(graph, p):
    """The label of least propensity."""
    found, least = 0, math.inf
    for y in range(graph.visible.shape[1]):
        shown = 0.0
        for i in range(p.size):
            if graph.visible[i, y]:
                shown += p[i]
        if shown < least:
            found, least = y, shown
    return found


@helper
def add_truth(graph, action, greedy, y, truth, recent):
    """Add a judged round to the true totals: four of them, then missed and hit labels by class and predictor."""
    truth[0] += action != y
    truth[1] += greedy != y
    if graph.has_costs:
        truth[2] += graph.costs[action, y]
        truth[3] += graph.costs[greedy, y]
    truth[4 + 4 * y + (action == y)] += 1.0
    truth[4 + 4 * y + 2 + (greedy == y)] += 1.0
    recent[0] += action != y
    recent[1] += greedy != y


@helper
def check_totals(watched, graph, alpha, start, truth, recent, missed):
    """The totals so far and those of the window, which starts with block `start`; and the alarm."""
    for q in range(4 if graph.has_costs else 2):
        low, high = bound_total(watched, q, SLOTS, math.log(2.0 / alpha))
        missed[q] |= is_outside(truth[q], low, high)
    for q in range(2):
        total = 0.0
        for slot in range(BLOCKS):
            total += recent[slot, q]
        low, high = bound_total(watched, q, BLOCKS, math.log(2.0 / share_alpha(alpha, start)))
        missed[4 + q] |= is_outside(total, low, high)
    missed[6] |= watched.alarm[ALARM_SINCE] >= 0.0


@helper
def check_classes(watched, graph, alpha, truth, missed):
    for k in range(graph.visible.shape[1]):
        for who in range(2):
            for is_hit in range(2):
                low, high = bound_class_total(watched, k, who, is_hit, math.log(2.0 / alpha))
                place = 4 * k + 2 * who + is_hit
                missed[CHECKS + place] |= is_outside(truth[4 + place], low, high)


@helper
def is_outside(total, low, high):
    return total < low - ROUNDING or total > high + ROUNDING


# ------------------------------------------------------------------------------------------------------- the scenarios


def errors(kind: str, rounds: int) -> np.ndarray:
    """The probability of an error of the greedy class, round by round."""
    t = np.arange(rounds) / rounds
    rates = {"steady": np.full(rounds, 0.1), "drift": np.where(t < 0.5, 0.05, 0.4), "rare": np.full(rounds, 0.01)}
    return rates[kind]


def distributions(kind: str, graph: FeedbackGraph, greedy: np.ndarray, rng) -> np.ndarray:
    """The distribution of every round: the greedy class and some exploration."""
    rounds, N = greedy.size, graph.n_actions
    if kind == "random":
        return rng.dirichlet(np.full(N, 0.5), rounds)
    share = {
        "constant": np.full(rounds, 0.1),
        "fading": 0.5 / np.sqrt(1.0 + np.arange(rounds) / 4.0),
        "none at times": np.where(rng.random(rounds) < 0.5, 0.0, 0.2),
        "tiny": 10.0 ** rng.uniform(-6, -1, rounds),
    }[kind]
    uniform = np.zeros(N)
    uniform[list(graph.dominating_indices)] = 1.0 / graph.rho
    P = share[:, None] * uniform
    P[np.arange(rounds), greedy] += 1.0 - share
    return P


SCENARIOS = {
    "steady": ("steady", "constant", "chance", 0),
    "steady, fading exploration": ("steady", "fading", "chance", 0),
    "rare errors, tiny propensities": ("rare", "tiny", "chance", 0),
    "drift, none at times": ("drift", "none at times", "chance", 0),
    "random distributions, late": ("steady", "random", "chance", 7),
    "labels of least propensity": ("steady", "constant", "least", 0),
    "labels that react, late": ("steady", "random", "reacting", 3),
}
"""The errors, the exploration, the labels, and by how many rounds feedback is late."""


def graphs() -> dict[str, FeedbackGraph]:
    rng = np.random.default_rng(1)
    visible = rng.random((5, 4)) < 0.4
    visible[4] |= ~visible.any(axis=0)
    costs = {("a", "b"): 5, ("b", "a"): 2}
    return {
        "full": FeedbackGraph.full(3),
        "bandit": FeedbackGraph.bandit(4),
        "filtering": FeedbackGraph.filtering(3),
        "label-efficient": FeedbackGraph.label_efficient(3),
        "apple-tasting, costs": FeedbackGraph.apple_tasting(["a", "b"], costs=costs),
        "disease-prevention": FeedbackGraph.disease_prevention(3),
        "random": FeedbackGraph(visible),
    }


class Coverage:
    """Many runs of one scenario on one graph: which bounds were wrong at some round, and the last intervals."""

    def __init__(
        self, graph: FeedbackGraph, scenario: str, runs: int, rounds: int, alpha: float, seed: int = 0
    ) -> None:
        error, exploration, labels, delay = SCENARIOS[scenario]
        self.graph, self.alpha, self.runs = graph, alpha, runs
        watch = Watch(window=max(8, rounds // 4 // 8 * 8), alpha=alpha)
        K, N = graph.n_classes, graph.n_actions
        self.missed = np.zeros((runs, CHECKS + 4 * K), np.bool_)
        self.widths, self.biases, self.values = np.zeros(runs), np.full(runs, np.nan), np.zeros(runs)
        kernel = None
        for run in range(runs):
            rng = np.random.default_rng([7, run])
            greedy = rng.integers(0, K, rounds)
            wrong = rng.random(rounds) < errors(error, rounds)
            y = np.where(wrong, (greedy + rng.integers(1, K, rounds)) % K, greedy)
            P = distributions(exploration, graph, greedy, rng)
            if labels == "least":
                y = np.where(rng.random(rounds) < 0.5, np.argmin(P @ graph.visible, axis=1), y)
            state = State(watch.declare(), Sizes(1, K, N))
            truth, recent = np.zeros(4 + 4 * K), np.zeros((SLOTS, 2))
            arguments = (
                watch, state.tuple, watch.plan(graph), graph.arrays, P, greedy, y, rng.random(rounds),
                int(labels == "reacting"), delay, np.zeros(rounds, np.int64), truth, recent, self.missed[run],
            )  # fmt: skip
            kernel = kernel or entry(cover, *arguments)
            kernel(*arguments)
            low, high = bound_total(state.tuple, 1, SLOTS, math.log(2.0 / alpha))
            judged, seen = (state.arrays["counts"][:, i].sum() for i in (1, 2))
            self.widths[run] = (high - low) / judged
            if seen:
                self.biases[run] = state.arrays["sums"][:, 1, 3].sum() / seen - truth[1] / judged

    @property
    def shares(self) -> np.ndarray:
        """The share of runs in which each bound was wrong at some round."""
        return self.missed.mean(axis=0)


def coverage_table(runs: int, rounds: int) -> list[str]:
    """For each graph the scenario in which most runs went wrong; every scenario is printed."""
    lines = [
        "| graph | totals | windows | classes | false alarms | width, first scenario | largest bias of naive |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, graph in graphs().items():
        worst, biases, width = np.zeros(4), [0.0], 0.0
        for scenario in SCENARIOS:
            found = Coverage(graph, scenario, runs, rounds, 0.05)
            shares = found.shares
            alarms = 0.0 if scenario.startswith("drift") else shares[6]
            here = np.array([shares[:4].max(), shares[4:6].max(), shares[CHECKS:].max(), alarms])
            biases.append(float(np.nan_to_num(np.nanmean(found.biases))))
            width = found.widths.mean() if scenario == "steady" else width
            worst = np.maximum(worst, here)
            print(f"{name:24} {scenario:32} {here.round(4)} {found.widths.mean():.3f} {biases[-1]:+.3f}", flush=True)
        cells = " | ".join(f"{share:.3f}" for share in worst)
        lines.append(f"| {name} | {cells} | {width:.3f} | {max(biases, key=abs):+.3f} |")
    return lines


def width_table() -> list[str]:
    """The width of the interval of the greedy error beside intervals for one fixed number of rounds."""
    lines = [
        "| graph | rounds | ours, at all times | empirical Bernstein, at one time | Hoeffding, at one time |",
        "|---|---|---|---|---|",
    ]
    for name in ("filtering", "label-efficient"):
        for rounds in (1_000, 10_000, 100_000):
            found = Coverage(graphs()[name], "steady", 5, rounds, 0.05)
            bernstein, hoeffding = fixed_widths(graphs()[name], rounds, 0.05)
            lines.append(f"| {name} | {rounds:,} | {found.widths.mean():.4f} | {bernstein:.4f} | {hoeffding:.4f} |")
            print(lines[-1], flush=True)
    return lines


def fixed_widths(graph: FeedbackGraph, rounds: int, alpha: float) -> tuple[float, float]:
    """Of inverse propensity weighting in the first scenario: errors that were seen, divided by their propensities.

    The bounds are those of Maurer and Pontil (2009, Theorem 4) and of Hoeffding, two-sided, for these rounds alone.
    """
    rng = np.random.default_rng(0)
    greedy = rng.integers(0, graph.n_classes, rounds)
    wrong = rng.random(rounds) < errors("steady", rounds)
    y = np.where(wrong, (greedy + rng.integers(1, graph.n_classes, rounds)) % graph.n_classes, greedy)
    P = distributions("constant", graph, greedy, rng)
    propensity = (P @ graph.visible)[np.arange(rounds), y]
    weighted = np.where((rng.random(rounds) < propensity) & wrong, 1.0 / propensity, 0.0)
    reach, log = 1.0 / (P @ graph.visible).min(), math.log(4.0 / alpha)
    bernstein = math.sqrt(2.0 * weighted.var(ddof=1) * log / rounds) + 7.0 * reach * log / (3.0 * (rounds - 1))
    return 2.0 * bernstein, 2.0 * reach * math.sqrt(math.log(2.0 / alpha) / (2.0 * rounds))


# ----------------------------------------------------------------------------------------------- the power of the alarm

BEFORE, AFTER = 100_000, 100_000
"""Rounds before and after the error rate changes."""
USUAL, CHANGED = 0.05, (0.10, 0.20, 0.40)
"""The error rate before, and those after."""
WINDOWS = (1_000, 4_000, 10_000, 40_000)
WATCHED = ("full", "filtering", "label-efficient", "bandit")


def ring(watch, watched, plan, graph, P, greedy, labels, draws, rung):
    """Play rounds until the alarm rings, and note before which round that was."""
    own = P[0, :0]
    for t in range(labels.size):
        watch.open_round(watched, t, 0.0)
        if watched.alarm[ALARM_SINCE] >= 0.0:
            rung[0] = t
            return
        a = draw(P[t], draws[t])
        seen = labels[t] if graph.visible[a, labels[t]] else -1
        watch.note_round(watched, plan, graph, Played(t, P[t], own, greedy[t], a), seen)


def alarms(graph: FeedbackGraph, window: int, rates: np.ndarray, runs: int, seed: int = 0) -> np.ndarray:
    """The rounds before which the alarm rang in many runs, -1 where it never did; a tenth of the rounds is explored.

    :param rates: the probability of an error of the greedy class, round by round.
    """
    watch, rounds, K = Watch(window=window), rates.size, graph.n_classes
    rung = np.full(runs, -1)
    kernel = None
    for run in range(runs):
        rng = np.random.default_rng([11, seed, run])
        greedy = rng.integers(0, K, rounds)
        wrong = rng.random(rounds) < rates
        y = np.where(wrong, (greedy + rng.integers(1, K, rounds)) % K, greedy)
        P = distributions("constant", graph, greedy, rng)
        state = State(watch.declare(), Sizes(1, K, graph.n_actions))
        arguments = (
            watch, state.tuple, watch.plan(graph), graph.arrays, P, greedy, y, rng.random(rounds), rung[run : run + 1],
        )  # fmt: skip
        kernel = kernel or entry(ring, *arguments)
        kernel(*arguments)
    return rung


def power_table(runs: int) -> list[str]:
    """How many rounds after a change the alarm rings, and how often it rings where nothing changes."""
    lines = [
        "| graph | window | false alarms | " + " | ".join(f"{USUAL:.2f} to {rate:.2f}" for rate in CHANGED) + " |",
        "|---|---|---|" + "---|" * len(CHANGED),
    ]
    for name in WATCHED:
        for window in WINDOWS:
            steady = alarms(graphs()[name], window, np.full(BEFORE + AFTER, USUAL), runs)
            cells = [f"{np.mean(steady >= 0):.2f}"]
            for rate in CHANGED:
                rates = np.where(np.arange(BEFORE + AFTER) < BEFORE, USUAL, rate)
                cells.append(_delays(alarms(graphs()[name], window, rates, runs)))
            lines.append(f"| {name} | {window:,} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    return lines


def _delays(rung: np.ndarray) -> str:
    """The median and the 90% quantile of the rounds until the alarm rings, and the share of runs in which it does not.

    Runs with an alarm before the change are false alarms and do not count. A quantile beyond the last round is a dash.
    """
    fair = rung[(rung < 0) | (rung > BEFORE)]
    delays = np.where(fair < 0, np.inf, fair - BEFORE)
    numbers = np.quantile(delays, (0.5, 0.9), method="higher")
    told = ["-" if math.isinf(number) else f"{number:,.0f}" for number in numbers]
    return f"{told[0]}, {told[1]}; {np.mean(fair < 0):.2f}"


# ------------------------------------------------------------------------------------------- what min_propensity costs


def played(stream, graph: FeedbackGraph, least: float, seed: int):
    """A run of the default learner with a least propensity: its monitor's report, and the true rates."""
    player = Player("auto", graph, stream.features, seed=seed, monitor=True, min_propensity=least)
    tally = new_tally(np.zeros(0, np.int64), graph.n_actions, graph.n_classes)
    rounds = 0
    for chunk in prepare_chunks(stream):
        player.advance(chunk, tally)
        rounds += len(chunk.chunk.labels)
    wrong = rounds - int(np.trace(tally.confusion[: graph.n_classes]))
    return player, Monitor(player).report(), wrong / rounds


def streams(folder: Path) -> dict:
    found = {"synthetic": Synthetic(classes=3, features=40, noise=0.05, rounds=50_000)}
    if (folder / "sms_spam.svm.gz").exists():
        found["sms_spam"] = open_stream(str(folder / "sms_spam.svm.gz"))
    return found


def limits_table(folder: Path, repeats: int) -> list[str]:
    lines = [
        "| stream | min_propensity | true error | labels seen | estimate | interval | naive (policy) |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, stream in streams(folder).items():
        graph = open_graph("filtering", stream.classes, stream.classes[0], classes_given=True)
        for least in (0.0, 0.01, 0.02, 0.05, 0.1):
            runs = [played(stream, graph, least, seed)[1:] for seed in range(repeats)]
            mean = lambda pick: float(np.mean([pick(report, error) for report, error in runs]))  # noqa: B023, E731
            lines.append(
                f"| {name} | {least:g} | {mean(lambda _, error: error):.4f} | "
                f"{mean(lambda report, _: report.labels_seen):,.0f} | "
                f"{mean(lambda report, _: report.policy.error.value):.4f} | "
                f"{mean(lambda report, _: report.policy.error.low):.4f} to "
                f"{mean(lambda report, _: report.policy.error.high):.4f} | "
                f"{mean(lambda report, _: report.policy.error.naive):.4f} |"
            )
            print(lines[-1], flush=True)
    return lines


def picture() -> None:
    """The estimate over time on the synthetic stream, with and without a least propensity."""
    from matplotlib.figure import Figure

    from gappletron.base import files

    stream = streams(ROOT)["synthetic"]
    figure = Figure(figsize=(6.4, 7.6), layout="constrained")
    axes = figure.subplots(2, 1, sharex=True)
    graph = open_graph("filtering", stream.classes, stream.classes[0], classes_given=True)
    titles = {
        0.0: "No least propensity: the interval stays wide",
        0.05: "min_propensity=0.05: it closes around the truth",
    }
    for ax, (least, title) in zip(axes, titles.items(), strict=True):
        player, _, error = played(stream, graph, least, 0)
        Monitor(player).plot(ax=ax)
        ax.axhline(error, color="black", linewidth=1.0, linestyle="--", label="policy, all labels, at the end")
        ax.set_title(title, fontsize=13, loc="left")
        ax.set_ylim(0, 0.6)
        ax.get_legend().remove()
    axes[0].set_xlabel("")
    axes[1].legend(frameon=False, fontsize=11)
    files.save_figure(figure, PICTURE, dpi=110)


def replaced(text: str, name: str, lines: list[str]) -> str:
    """The page with the table between its marks replaced."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, rest = text.split(begin)
    return before + "\n".join([begin, *lines, end]) + rest.split(end)[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="the folder of sms_spam")
    parser.add_argument("--only", choices=("coverage", "widths", "limits", "power"), help="make this table alone")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    start = time.perf_counter()
    makers = {
        "coverage": lambda: coverage_table(options.runs, options.rounds),
        "widths": width_table,
        "limits": lambda: limits_table(options.data, options.repeats),
        "power": lambda: power_table(options.runs // 4),
    }
    tables = {name: make() for name, make in makers.items() if options.only in (None, name)}
    print(f"{time.perf_counter() - start:.0f} seconds")
    if options.write:
        for name, lines in tables.items():
            text = PAGES[name].read_text(encoding="utf-8")
            PAGES[name].write_text(replaced(text, name, lines), encoding="utf-8")
        if "limits" in tables:
            picture()


if __name__ == "__main__":
    main()
