"""Online classification when what you see depends on what you predict.

>>> import gappletron
>>> runs = gappletron.play("gapsmh", "synthetic:K=3,d=40,noise=0,T=5000", "bandit", seed=0)
>>> runs[0].error_rate < 0.1
True
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same list for type checkers and editors; a test compares the two
    from gappletron._dispatch import Piece as Piece
    from gappletron._dispatch import compiled as compiled
    from gappletron._dispatch import helper as helper
    from gappletron._dispatch import interpreted as interpreted
    from gappletron._validate import Label as Label
    from gappletron._validate import UserError as UserError
    from gappletron.exploration import Exploration as Exploration
    from gappletron.exploration import Paper as Paper
    from gappletron.exploration import TopUp as TopUp
    from gappletron.graphs import FeedbackGraph as FeedbackGraph
    from gappletron.graphs import GraphArrays as GraphArrays
    from gappletron.history import Curve as Curve
    from gappletron.history import Histories as Histories
    from gappletron.history import History as History
    from gappletron.learners import named as named
    from gappletron.learners import names as names
    from gappletron.learners.banditron import Banditron as Banditron
    from gappletron.learners.banditron import BanditronIW as BanditronIW
    from gappletron.learners.exp3 import Exp3G as Exp3G
    from gappletron.learners.gappletron import Gappletron as Gappletron
    from gappletron.learners.gaptron import (
        Gaptron as Gaptron,
    )
    from gappletron.learners.gaptron import (
        GaptronHinge as GaptronHinge,
    )
    from gappletron.learners.gaptron import (
        GaptronLogistic as GaptronLogistic,
    )
    from gappletron.learners.gaptron import (
        GaptronMix as GaptronMix,
    )
    from gappletron.learners.learner import Decision as Decision
    from gappletron.learners.learner import Learner as Learner
    from gappletron.learners.learner import Problem as Problem
    from gappletron.learners.learner import Round as Round
    from gappletron.learners.newtron import Newtron as Newtron
    from gappletron.learners.newtron import PNewtron as PNewtron
    from gappletron.learners.perceptron import (
        LabelEfficientPerceptron as LabelEfficientPerceptron,
    )
    from gappletron.learners.perceptron import (
        PassiveAggressive as PassiveAggressive,
    )
    from gappletron.learners.perceptron import (
        Perceptron as Perceptron,
    )
    from gappletron.learners.second_order import (
        Arow as Arow,
    )
    from gappletron.learners.second_order import (
        SecondOrderPerceptron as SecondOrderPerceptron,
    )
    from gappletron.learners.second_order import (
        SecondOrderPerceptronDiag as SecondOrderPerceptronDiag,
    )
    from gappletron.learners.soba import (
        AdaptiveRate as AdaptiveRate,
    )
    from gappletron.learners.soba import (
        FixedRate as FixedRate,
    )
    from gappletron.learners.soba import (
        Soba as Soba,
    )
    from gappletron.learners.soba import (
        SobaDiag as SobaDiag,
    )
    from gappletron.losses import (
        Hinge as Hinge,
    )
    from gappletron.losses import (
        LogisticBase2 as LogisticBase2,
    )
    from gappletron.losses import (
        LogisticBaseK as LogisticBaseK,
    )
    from gappletron.losses import (
        Loss as Loss,
    )
    from gappletron.losses import (
        SmoothHinge as SmoothHinge,
    )
    from gappletron.online import UNSEEN as UNSEEN
    from gappletron.online import Online as Online
    from gappletron.online import Receipt as Receipt
    from gappletron.optimizers import (
        AdaGrad as AdaGrad,
    )
    from gappletron.optimizers import (
        AdaptiveOGD as AdaptiveOGD,
    )
    from gappletron.optimizers import (
        FixedOGD as FixedOGD,
    )
    from gappletron.optimizers import (
        Optimizer as Optimizer,
    )
    from gappletron.optimizers import (
        ProjectedOGD as ProjectedOGD,
    )
    from gappletron.optimizers import (
        ScaleFreeFTRL as ScaleFreeFTRL,
    )
    from gappletron.runs import Runs as Runs
    from gappletron.runs import play as play
    from gappletron.streams import open_stream as open_stream
    from gappletron.streams.stream import ArrayStream as ArrayStream
    from gappletron.streams.stream import Chunk as Chunk
    from gappletron.streams.stream import Stream as Stream
    from gappletron.streams.svmlight import SvmlightFile as SvmlightFile
    from gappletron.streams.synthetic import Synthetic as Synthetic
    from gappletron.tuning import tuned as tuned

__version__ = "0.1.0"

# Where each public name lives. They are loaded on first use (PEP 562): `import gappletron` alone costs next to nothing.
_HOMES = {
    "_dispatch": ("Piece", "compiled", "helper", "interpreted"),
    "_validate": ("Label", "UserError"),
    "exploration": ("Exploration", "Paper", "TopUp"),
    "graphs": ("FeedbackGraph", "GraphArrays"),
    "history": ("Curve", "Histories", "History"),
    "learners": ("named", "names"),
    "learners.banditron": ("Banditron", "BanditronIW"),
    "learners.exp3": ("Exp3G",),
    "learners.gappletron": ("Gappletron",),
    "learners.gaptron": ("Gaptron", "GaptronHinge", "GaptronLogistic", "GaptronMix"),
    "learners.learner": ("Decision", "Learner", "Problem", "Round"),
    "learners.newtron": ("Newtron", "PNewtron"),
    "learners.perceptron": ("LabelEfficientPerceptron", "PassiveAggressive", "Perceptron"),
    "learners.second_order": ("Arow", "SecondOrderPerceptron", "SecondOrderPerceptronDiag"),
    "learners.soba": ("AdaptiveRate", "FixedRate", "Soba", "SobaDiag"),
    "losses": ("Hinge", "LogisticBase2", "LogisticBaseK", "Loss", "SmoothHinge"),
    "online": ("Online", "Receipt", "UNSEEN"),
    "optimizers": ("AdaGrad", "AdaptiveOGD", "FixedOGD", "Optimizer", "ProjectedOGD", "ScaleFreeFTRL"),
    "runs": ("Runs", "play"),
    "streams": ("open_stream",),
    "streams.stream": ("ArrayStream", "Chunk", "Stream"),
    "streams.svmlight": ("SvmlightFile",),
    "streams.synthetic": ("Synthetic",),
    "tuning": ("tuned",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", *sorted(_HOME_OF)]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'gappletron' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"gappletron.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
