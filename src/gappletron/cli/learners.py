"""``gappletron learners``: list the learners."""

from __future__ import annotations

import gappletron as gp
from gappletron.cli.output import say


def learners() -> None:
    """List the learners: name, kind of feedback, parameters, reference."""
    for name in gp.names():
        learner = gp.named(name)
        say(
            f"{name}\n    feedback    {learner.setting}\n    parameters  {show_parameters(learner)}\n"
            f"    reference   {learner.reference}"
        )


def show_parameters(learner: gp.Learner) -> str:
    """Return the fields of a learner with their default values."""
    parameters = learner._asdict().items()
    shown = [f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in parameters]
    return ", ".join(shown) or "none"
