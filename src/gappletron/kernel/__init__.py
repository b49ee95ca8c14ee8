"""Pieces and how they are compiled, declared state, and the loops that learners share."""
