"""Cures that several errors share: what to do, in the words of Python and in those of HTTP."""

from __future__ import annotations

from gappletron.base.checks import Cure

__all__ = ["GIVE_LABEL", "OPEN_AGAIN", "PASS_UNSEEN"]

PASS_UNSEEN = Cure("pass UNSEEN", 'send {"unseen": true} in place of the label')
"""The action did not show the label."""
GIVE_LABEL = Cure(
    "give it, or leave the receipt alone if the label is not known",
    "send it, or forget the receipt (/v1/forget) if the label will never be known",
)
"""The action did show the label."""
OPEN_AGAIN = Cure("open the folder again", "whoever runs the server must start it again")
"""A journal that can no longer be written to by this process."""
