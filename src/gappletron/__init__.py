"""Online classification when what you see depends on what you predict.

>>> import gappletron
>>> runs = gappletron.play("gapsmh", "synthetic:K=3,d=40,noise=0,T=5000", "bandit", seed=0)
>>> runs[0].error_rate < 0.1
True
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from gappletron.base.version import __version__ as __version__

if TYPE_CHECKING:  # the same list for type checkers and editors; a test compares the two
    from gappletron.base.checks import Label as Label, UserError as UserError
    from gappletron.data.adversarial import (
        FreshFeatures as FreshFeatures,
        FreshThenSegments as FreshThenSegments,
        Segments as Segments,
    )
    from gappletron.data.normalization import Columns as Columns
    from gappletron.data.open import open_stream as open_stream
    from gappletron.data.records.encoder import Encoder as Encoder
    from gappletron.data.stream import ArrayStream as ArrayStream, Chunk as Chunk, Stream as Stream
    from gappletron.data.svmlight import SvmlightFile as SvmlightFile
    from gappletron.data.synthetic import Synthetic as Synthetic
    from gappletron.data.unit_vectors import UnitVectors as UnitVectors
    from gappletron.graphs.graph import FeedbackGraph as FeedbackGraph, GraphArrays as GraphArrays, Plan as Plan
    from gappletron.kernel.pieces import (
        Piece as Piece,
        compiled as compiled,
        helper as helper,
        interpreted as interpreted,
    )
    from gappletron.kernel.state import Field as Field, Scratch as Scratch
    from gappletron.learners.banditron import Banditron as Banditron, BanditronIW as BanditronIW
    from gappletron.learners.estimators import Estimator as Estimator
    from gappletron.learners.exp3 import Exp3G as Exp3G
    from gappletron.learners.exploration.gap_rules import Paper as Paper, TopUp as TopUp
    from gappletron.learners.exploration.inverse_gap import InverseGap as InverseGap
    from gappletron.learners.exploration.optimised import Optimised as Optimised
    from gappletron.learners.exploration.rule import Exploration as Exploration
    from gappletron.learners.exploration.simple_rules import (
        BurnIn as BurnIn,
        EpsilonGreedy as EpsilonGreedy,
        Greedy as Greedy,
    )
    from gappletron.learners.exploration.squarecb import SquareCB as SquareCB
    from gappletron.learners.gappletron import Gappletron as Gappletron
    from gappletron.learners.gaptron import (
        Gaptron as Gaptron,
        GaptronHinge as GaptronHinge,
        GaptronLogistic as GaptronLogistic,
        GaptronMix as GaptronMix,
    )
    from gappletron.learners.learner import Decision as Decision, Learner as Learner, Problem as Problem, Round as Round
    from gappletron.learners.losses import (
        Hinge as Hinge,
        LogisticBase2 as LogisticBase2,
        LogisticBaseK as LogisticBaseK,
        Loss as Loss,
        SmoothHinge as SmoothHinge,
    )
    from gappletron.learners.newtron import Newtron as Newtron, PNewtron as PNewtron
    from gappletron.learners.one_against_all import OneAgainstAll as OneAgainstAll
    from gappletron.learners.optimizers import (
        AdaGrad as AdaGrad,
        AdaptiveOGD as AdaptiveOGD,
        ConfidenceWeighted as ConfidenceWeighted,
        FixedOGD as FixedOGD,
        Optimizer as Optimizer,
        ProjectedOGD as ProjectedOGD,
        ScaleFreeFTRL as ScaleFreeFTRL,
    )
    from gappletron.learners.partial_likelihood import PartialLikelihood as PartialLikelihood
    from gappletron.learners.perceptron import (
        LabelEfficientPerceptron as LabelEfficientPerceptron,
        PassiveAggressive as PassiveAggressive,
        Perceptron as Perceptron,
    )
    from gappletron.learners.registry import named as named, names as names
    from gappletron.learners.second_order import (
        Arow as Arow,
        SecondOrderPerceptron as SecondOrderPerceptron,
        SecondOrderPerceptronDiag as SecondOrderPerceptronDiag,
    )
    from gappletron.learners.soba import (
        AdaptiveRate as AdaptiveRate,
        FixedRate as FixedRate,
        Soba as Soba,
        SobaDiag as SobaDiag,
    )
    from gappletron.learners.squarecb import SquareCBG as SquareCBG
    from gappletron.online.decisions import read_decisions as read_decisions
    from gappletron.online.model import Online as Online
    from gappletron.online.off_policy import (
        Evaluation as Evaluation,
        OffPolicyEstimate as OffPolicyEstimate,
        evaluate_off_policy as evaluate_off_policy,
    )
    from gappletron.online.receipts import UNSEEN as UNSEEN, Receipt as Receipt
    from gappletron.online.river import RiverAct as RiverAct, RiverClassifier as RiverClassifier
    from gappletron.online.sklearn import Acts as Acts, GappletronClassifier as GappletronClassifier
    from gappletron.paper.adversary import Probe as Probe, quietest_segment as quietest_segment
    from gappletron.paper.comparator import Comparator as Comparator, best_comparator as best_comparator
    from gappletron.paper.reproduce import Reproduction as Reproduction, reproduce as reproduce
    from gappletron.paper.store import Outcome as Outcome, Result as Result, read_results as read_results
    from gappletron.paper.sweeps import Task as Task
    from gappletron.paper.theory import Bound as Bound, bounds as bounds
    from gappletron.paper.tuning import tuned as tuned
    from gappletron.play.history import (
        Confusion as Confusion,
        Curve as Curve,
        Histories as Histories,
        History as History,
    )
    from gappletron.play.limits import Budget as Budget, Limits as Limits
    from gappletron.play.monitor import (
        Alarm as Alarm,
        ClassRates as ClassRates,
        Estimate as Estimate,
        Monitor as Monitor,
        Rates as Rates,
        Report as Report,
        WindowRates as WindowRates,
    )
    from gappletron.play.player import Player as Player, Turn as Turn
    from gappletron.play.runs import Runs as Runs, play as play
    from gappletron.play.watch import Watch as Watch

# Where each public name lives. They are loaded on first use (PEP 562): `import gappletron` alone costs next to nothing.
_HOMES = {
    "kernel.pieces": ("Piece", "compiled", "helper", "interpreted"),
    "base.checks": ("Label", "UserError"),
    "paper.adversary": ("Probe", "quietest_segment"),
    "paper.comparator": ("Comparator", "best_comparator"),
    "paper.reproduce": ("Reproduction", "reproduce"),
    "paper.store": ("Outcome", "Result", "read_results"),
    "paper.sweeps": ("Task",),
    "paper.theory": ("Bound", "bounds"),
    "learners.exploration.gap_rules": ("Paper", "TopUp"),
    "learners.exploration.inverse_gap": ("InverseGap",),
    "learners.exploration.optimised": ("Optimised",),
    "learners.exploration.rule": ("Exploration",),
    "learners.exploration.simple_rules": ("BurnIn", "EpsilonGreedy", "Greedy"),
    "learners.exploration.squarecb": ("SquareCB",),
    "graphs.graph": ("FeedbackGraph", "GraphArrays", "Plan"),
    "play.history": ("Confusion", "Curve", "Histories", "History"),
    "online.decisions": ("read_decisions",),
    "learners.registry": ("named", "names"),
    "learners.banditron": ("Banditron", "BanditronIW"),
    "learners.estimators": ("Estimator",),
    "learners.exp3": ("Exp3G",),
    "learners.gappletron": ("Gappletron",),
    "learners.gaptron": ("Gaptron", "GaptronHinge", "GaptronLogistic", "GaptronMix"),
    "learners.learner": ("Decision", "Learner", "Problem", "Round"),
    "learners.newtron": ("Newtron", "PNewtron"),
    "learners.one_against_all": ("OneAgainstAll",),
    "learners.partial_likelihood": ("PartialLikelihood",),
    "learners.perceptron": ("LabelEfficientPerceptron", "PassiveAggressive", "Perceptron"),
    "learners.second_order": ("Arow", "SecondOrderPerceptron", "SecondOrderPerceptronDiag"),
    "learners.soba": ("AdaptiveRate", "FixedRate", "Soba", "SobaDiag"),
    "learners.squarecb": ("SquareCBG",),
    "play.limits": ("Budget", "Limits"),
    "play.monitor": ("Alarm", "ClassRates", "Estimate", "Monitor", "Rates", "Report", "WindowRates"),
    "data.normalization": ("Columns",),
    "learners.losses": ("Hinge", "LogisticBase2", "LogisticBaseK", "Loss", "SmoothHinge"),
    "online.off_policy": ("Evaluation", "OffPolicyEstimate", "evaluate_off_policy"),
    "online.model": ("Online",),
    "learners.optimizers": (
        "AdaGrad",
        "AdaptiveOGD",
        "ConfidenceWeighted",
        "FixedOGD",
        "Optimizer",
        "ProjectedOGD",
        "ScaleFreeFTRL",
    ),
    "play.player": ("Player", "Turn"),
    "online.receipts": ("Receipt", "UNSEEN"),
    "data.records.encoder": ("Encoder",),
    "online.river": ("RiverAct", "RiverClassifier"),
    "play.runs": ("Runs", "play"),
    "online.sklearn": ("Acts", "GappletronClassifier"),
    "kernel.state": ("Field", "Scratch"),
    "data.open": ("open_stream",),
    "data.adversarial": ("FreshFeatures", "FreshThenSegments", "Segments"),
    "data.stream": ("ArrayStream", "Chunk", "Stream"),
    "data.svmlight": ("SvmlightFile",),
    "data.synthetic": ("Synthetic",),
    "data.unit_vectors": ("UnitVectors",),
    "paper.tuning": ("tuned",),
    "play.watch": ("Watch",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

_NEEDS = {"online.river": "river"}
"""Modules of which the names need another package, and which one: where it is not installed, `import *` omits them."""


def _exported() -> list[str]:
    """The names of `import *`."""
    from importlib.util import find_spec

    absent = {home for home, package in _NEEDS.items() if find_spec(package) is None}
    return ["__version__", *sorted(name for name, home in _HOME_OF.items() if home not in absent)]


def __getattr__(name: str) -> Any:
    if name == "__all__":  # only `import *` asks for it, and looking for packages takes time
        return globals().setdefault("__all__", _exported())
    if name not in _HOME_OF:
        raise AttributeError(f"module 'gappletron' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"gappletron.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), "__all__", *_HOME_OF})
