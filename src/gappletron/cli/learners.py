"""``gappletron learners``: list the learners."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gappletron.cli.output import say

if TYPE_CHECKING:
    from gappletron import Learner


def list_learners() -> None:
    """List the learners: name, kind of feedback, parameters, reference."""
    from gappletron import named, names

    for name in names():
        learner = named(name)
        say(
            f"{name}\n    feedback    {learner.setting}\n    parameters  {show_parameters(learner)}\n"
            f"    reference   {learner.reference}"
        )


def show_parameters(learner: Learner) -> str:
    """Return the fields of a learner with their default values."""
    return (
        ", ".join(
            f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}"
            for key, value in learner._asdict().items()
        )
        or "none"
    )
