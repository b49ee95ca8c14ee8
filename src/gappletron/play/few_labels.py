"""When a run is stuck: so few labels are seen that a better policy could not be told from the present one."""

# After so many rounds there is a warning where the error is unknown by as much as this, and fewer labels than this
# share of the rounds were seen.
MANY_ROUNDS, WIDE, FEW_LABELS = 1000, 0.2, 0.05

# So few labels in a part of a run leave the error of that part unknown by `WIDE`: about ln(2 / 0.05) / WIDE.
FEW_LATELY = 18


def warn_of_few_labels(seen: int, rounds: int, low: float, high: float) -> str | None:
    """Return one sentence on what is wrong, and one with the cure; None where enough labels are seen.

    :param low, high: between which the error is, as far as the labels that were seen tell it.

    >>> warn_of_few_labels(seen=900, rounds=10_000, low=0.0, high=0.9) is None
    True
    >>> print(warn_of_few_labels(seen=12, rounds=10_000, low=0.0, high=0.9))
    Only 12 labels were seen in 10,000 rounds, and the error may be anything from 0.00 to 0.90: whether another \
policy would do better cannot be told. Teach labels from elsewhere (teach), or have labels revealed more often \
(min_propensity, a budget).
    """
    if rounds < MANY_ROUNDS or high - low < WIDE or seen > FEW_LABELS * rounds:
        return None
    labels = {0: "No label was", 1: "Only 1 label was"}.get(seen, f"Only {seen:,} labels were")
    return (
        f"{labels} seen in {rounds:,} rounds, and the error may be anything from {low:.2f} to "
        f"{high:.2f}: whether another policy would do better cannot be told. Teach labels from elsewhere (teach), or "
        "have labels revealed more often (min_propensity, a budget)."
    )
