"""Online classification when what you see depends on what you predict.

>>> import gappletron
>>> runs = gappletron.play("gapsmh", "synthetic:K=3,d=40,noise=0,T=5000", "bandit", seed=0)
>>> runs[0].error_rate < 0.1
True
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Where each public name lives. They are loaded on first use (PEP 562): `import gappletron` alone costs next to nothing.
_HOMES = {
    "_dispatch": ("Piece", "compiled", "helper", "interpreted"),
    "_validate": ("Label", "UserError"),
    "exploration": ("Exploration", "Paper", "TopUp"),
    "graphs": ("FeedbackGraph", "GraphArrays"),
    "history": ("Curve", "Histories", "History"),
    "learners": ("named", "names"),
    "learners.gappletron": ("Gappletron",),
    "learners.learner": ("Decision", "Learner", "Problem", "Round"),
    "losses": ("Hinge", "LogisticBase2", "LogisticBaseK", "Loss", "SmoothHinge"),
    "online": ("UNSEEN", "Online", "Receipt"),
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
