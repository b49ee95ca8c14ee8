"""Writes docs/api.md: every public name by task, with the first line of its docstring (`python docs/api.py`)."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import gappletron

PAGE = Path(__file__).with_name("api.md")
DATA = {
    "UNSEEN": "In place of a label: the round is over, and the graph hid the label.",
    "Label": "What a class or an action may be called: `str`, `int`, `bool` or `None`.",
    "helper": "Marks a plain function that compiled methods call; interpreted, it is the function itself.",
}
# Every public name but those of the last section, which has what is left.
TASKS = {
    "Decide and learn": "Online Receipt UNSEEN Label Player Turn",
    "Ask why": "Explanation Contribution FeatureWeights FeatureWeight",
    "Say what is revealed, and what it costs": "FeedbackGraph GraphArrays Plan",
    "Read records, tables and streams": """
        Encoder open_stream Columns ArrayStream SvmlightFile Stream Chunk Synthetic UnitVectors
    """,
    "Play recordings and compare learners": "play Runs Histories History Curve Confusion named names",
    "Monitor and limit": """
        Monitor Watch Report Rates ClassRates WindowRates Estimate Alarm Budget Limits LimitsReport Restart
        RunBound
    """,
    "Ask the log": "read_decisions evaluate_off_policy Evaluation OffPolicyEstimate",
    "Work with scikit-learn and River": "GappletronClassifier Acts RiverClassifier RiverAct",
    "Choose a learner": """
        Guarded Tracking GivenScores OneAgainstAll PartialLikelihood SquareCBG Gappletron DecodedLogistic Gaptron
        Banditron BanditronIW PNewtron Newtron SobaDiag Soba Perceptron PassiveAggressive LabelEfficientPerceptron
        SecondOrderPerceptronDiag SecondOrderPerceptron Arow Exp3G
    """,
    "Choose a loss": "SmoothHinge Hinge LogisticBase2 LogisticBaseK GaptronHinge GaptronLogistic",
    "Choose an optimizer": "ConfidenceWeighted AdaGrad AdaptiveOGD ProjectedOGD FixedOGD ScaleFreeFTRL",
    "Choose an exploration rule": """
        InverseGap TopUp Paper Decoding Optimised SquareCB Greedy EpsilonGreedy BurnIn GaptronMix FixedRate
        AdaptiveRate
    """,
    "Write your own components": """
        Piece Learner Scorer Loss Optimizer Exploration Estimator Decision Round Problem Field Scratch
        ScoreParts compiled helper interpreted
    """,
    "Reproduce the paper": """
        reproduce Reproduction read_results Result Task Outcome bounds Bound tuned best_comparator
        Comparator Segments FreshFeatures FreshThenSegments quietest_segment Probe
    """,
    "Handle errors": "UserError UnknownReceipt SpentReceipt Unavailable",
}


def list_tasks() -> dict[str, list[str]]:
    """Return the public names of every task, those of no task last."""
    public = [name for name in sorted(gappletron.__dir__(), key=str.lower) if name != "__version__"]
    tasks = {title: [name for name in names.split() if name in public] for title, names in TASKS.items()}
    rest = [name for name in public if not any(name in names for names in tasks.values())]
    return tasks | ({"Other names": rest} if rest else {})


def first_line(name: str) -> str:
    """Return the first sentence or two of a name's docstring, with its references as plain names."""
    text = DATA.get(name) or (inspect.getdoc(getattr(gappletron, name)) or "").split("\n\n", maxsplit=1)[0]
    text = re.sub(r":\w+:`~?(?:[\w.]+ <)?(?:gappletron\.)?(?:[a-z_.0-9]+\.(?=[A-Z]))?([\w.]+)>?`", r"`\1`", text)
    return " ".join(text.replace("``", "`").replace("|", r"\|").split())


def page() -> str:
    """Return the whole page."""
    lines = [
        "# API reference",
        "",
        "Every public name, by task, all imported from `gappletron`. (This page is made by `python docs/api.py`.)",
    ]
    for title, names in list_tasks().items():
        lines += ["", f"## {title}", "", "| name | |", "|---|---|"]
        lines += [f"| `{name}` | {first_line(name)} |" for name in names]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
