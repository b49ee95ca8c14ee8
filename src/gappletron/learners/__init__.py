"""Learners, and what they are made of: losses, optimizers, exploration rules."""
