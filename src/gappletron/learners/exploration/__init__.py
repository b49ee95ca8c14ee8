"""Exploration rules: from scores and a graph to a distribution over the actions."""
