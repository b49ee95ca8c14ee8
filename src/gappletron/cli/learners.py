"""``gappletron learners``: list the learners."""

import gappletron as gp
from gappletron.cli.output import say


def learners() -> None:
    """List the learners: name, kind of feedback, parameters, reference."""
    for name in gp.names():
        learner = gp.named(name)
        fields = learner._asdict().items()
        shown = [f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in fields]
        say(f"{name}\n    feedback    {learner.setting}\n    parameters  {', '.join(shown) or 'none'}")
        say(f"    reference   {learner.reference}")
