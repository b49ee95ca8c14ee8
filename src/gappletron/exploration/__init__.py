"""Exploration rules, a family each: which actions to play, and how often.

All rules are loaded together, so that their names are known wherever a rule can be named.
"""

from gappletron.exploration.gap_rules import Paper, TopUp
from gappletron.exploration.inverse_gap import InverseGap
from gappletron.exploration.optimised import Optimised
from gappletron.exploration.rule import Exploration
from gappletron.exploration.simple_rules import BurnIn, EpsilonGreedy, Greedy
from gappletron.exploration.squarecb import SquareCB

__all__ = [
    "BurnIn",
    "EpsilonGreedy",
    "Exploration",
    "Greedy",
    "InverseGap",
    "Optimised",
    "Paper",
    "SquareCB",
    "TopUp",
]
