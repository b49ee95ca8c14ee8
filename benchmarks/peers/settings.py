"""Who plays: ours and the peers, as plain values that a file of results can hold."""

from __future__ import annotations

from typing import NamedTuple

OURS = ("auto", "gapsmh")
"""Our learners, by the names that `gappletron.play` takes."""
BEFORE = "one-against-all"
"""The default of version 0.2.0, which plays the streams in natural order too."""

PREPARED_OPTIONS: dict[str, object] = {"normalize": None, "bias": False}
"""What `gappletron.play` is given beside a prepared stream: its features are to be taken as they are."""
RAW_OPTIONS: dict[str, object] = {}
"""What `gappletron.play` is given beside a raw stream: nothing, the defaults are meant."""


class Setting(NamedTuple):
    """A player with its parameters."""

    package: str
    """Ours, VW, River or scikit-learn."""
    method: str
    """Which adapter plays it, as in `players.ADAPTERS`; for ours the learner's name."""
    options: str = ""
    """The method's own options."""
    policy: str = "greedy"
    """When to look, for a method that learns from labels: greedy, eps or first."""
    amount: float = 0.0
    """The probability of eps, the number of rounds of first."""
    tuned: bool = False
    """Whether the parameters were chosen in hindsight for this stream and graph."""

    @property
    def name(self) -> str:
        """What tables and legends say."""
        words = [self.package, self.method, self.options]
        if self.policy == "eps":
            words.append(f"+ look with probability {self.amount:g}")
        if self.policy == "first":
            words.append(f"+ look at the first {self.amount:g}")
        return " ".join(word for word in words if word)

    @property
    def is_random(self) -> bool:
        """Whether seeds make a difference. Vowpal Wabbit's --cbify draws the same numbers for every seed."""
        ours_or_drawn = self.package == "Ours" or self.method == "--graph_feedback" or "--bag" in self.options
        return ours_or_drawn or self.policy == "eps" or self.method == "--active"


# --------------------------------------------------------------------------------------------------------- constructors


def ours(learner: str) -> Setting:
    """One of our learners, with its defaults."""
    return Setting("Ours", learner)


def one_vs_all(loss: str, flags: str = "") -> Setting:
    """Vowpal Wabbit's one-against-all, learning from labels."""
    return Setting("VW", "--oaa", f"--loss_function {loss} {flags}".strip())


def cbify(flags: str) -> Setting:
    """Vowpal Wabbit's contextual bandits, simulated from labels (its ADF form)."""
    return Setting("VW", "--cbify", flags)


def active(loss: str, flags: str = "") -> Setting:
    """Vowpal Wabbit's active learning, for two classes."""
    return Setting("VW", "--active", f"--loss_function {loss} {flags}".strip())


def graph_feedback(flags: str = "") -> Setting:
    """Vowpal Wabbit's SquareCB.G."""
    return Setting("VW", "--graph_feedback", flags)


def river(model: str, rate: float | None = None) -> Setting:
    """A linear model of River, with its default optimizer or AdaGrad at a rate."""
    return Setting("River", model, "" if rate is None else f"AdaGrad({rate:g})")


def scikit_learn(model: str) -> Setting:
    """A linear model of scikit-learn with partial_fit."""
    return Setting("scikit-learn", model)


def now_and_then(setting: Setting, probability: float) -> Setting:
    """The same, looking at the label with a probability; with probability 0, greedy."""
    return setting if probability == 0 else setting._replace(policy="eps", amount=probability)


def burn_in(setting: Setting, rounds: int) -> Setting:
    """The same, looking at the first labels."""
    return setting._replace(policy="first", amount=float(rounds))


# ------------------------------------------------------------------------------------------------------------- defaults

LABEL_LEARNERS = (
    one_vs_all("squared"),
    one_vs_all("hinge"),
    one_vs_all("logistic"),
    river("SoftmaxRegression"),
    river("SoftmaxRegression", 1.0),
    scikit_learn("SGDClassifier"),
    scikit_learn("Perceptron"),
    scikit_learn("PassiveAggressive"),
)
TWO_CLASSES = (river("LogisticRegression"), river("LogisticRegression", 1.0))
BANDITS = (cbify("--epsilon 0.05"), cbify("--first 100"), cbify("--bag 5"), cbify("--squarecb"))
LOOKING = (one_vs_all("hinge"), river("SoftmaxRegression", 1.0), scikit_learn("SGDClassifier"))
ACTIVE = (active("hinge"), active("logistic"))
GRAPH_FEEDBACK_CLASSES = 10
"""The most classes with which --graph_feedback is played: with 20 a round takes a second, with 77 half a minute."""


def default_peers(graph: str, classes: int) -> list[Setting]:
    """The peers of a graph with their defaults."""
    if graph == "full":
        return [*LABEL_LEARNERS, *(TWO_CLASSES if classes == 2 else ())]
    if graph == "bandit":
        return list(BANDITS)
    eps = [now_and_then(setting, 0.05) for setting in LOOKING]
    first = [burn_in(setting, 100) for setting in LOOKING]
    if graph == "filtering":
        solved = [graph_feedback()] if classes <= GRAPH_FEEDBACK_CLASSES else []
        return [*LOOKING, *eps, *first, *solved]
    return [*eps, *first, *(ACTIVE if classes == 2 else ())]


def raw_peers(graph: str) -> list[Setting]:
    """The peers that scale features themselves, for streams that nobody prepared."""
    plain = one_vs_all("hinge")
    if graph == "full":
        return [plain]
    if graph == "bandit":
        return [cbify("--epsilon 0.05")]
    return [now_and_then(plain, 0.05), burn_in(plain, 100)]
