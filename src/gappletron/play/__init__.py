"""Rounds and players: the round loop, the watch, limits, whole streams, what happened."""
