"""A log of every decision and every piece of feedback, with snapshots of the state: what `Online.open` writes."""
