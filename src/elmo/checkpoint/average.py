"""Models of one descent -> the model whose weights are the mean of theirs. Nothing is trained."""

from collections.abc import Sequence
from dataclasses import replace

from elmo.checkpoint.card import derived_card
from elmo.checkpoint.checkpoint import Checkpoint
from elmo.errors import InputError


def average(checkpoints: Sequence[Checkpoint], shares: Sequence[float] | None = None) -> Checkpoint:
    """Give the mean of models of the same form and words, each with its share (equal ones unless given).

    It is of use where one was trained from the other, or both from a third: weights that were drawn apart have
    nothing in common.
    """
    shares = [1.0] * len(checkpoints) if shares is None else list(shares)
    if len(checkpoints) < 2:
        raise InputError(f"{len(checkpoints)} model was given; two or more were expected to make a mean of.")
    if len(shares) != len(checkpoints):
        raise InputError(f"{len(shares)} shares were given for {len(checkpoints)} models; give one for each.")
    if not all(0 <= share < float("inf") for share in shares) or not sum(shares):
        raise InputError(f"The shares are {', '.join(map(str, shares))}; each must be 0 or more, and not all 0.")
    first, *others = checkpoints
    for number, other in enumerate(others, start=2):
        for name, is_same in (
            ("settings", other.config == first.config),
            ("vocabulary", other.vocabulary == first.vocabulary),
            ("characters", other.characters == first.characters),
        ):
            if not is_same:
                raise InputError(
                    f"The {name} of model {number} are not those of the first; only models of one form, trained "
                    "from one another, have a mean."
                )
    total = sum(shares)
    weights = {
        name: sum(
            checkpoint.weights[name].double() * (share / total)
            for checkpoint, share in zip(checkpoints, shares, strict=True)
        ).to(weight.dtype)  # type: ignore[union-attr]
        for name, weight in first.weights.items()
    }
    return replace(first, weights=weights, card=derived_card(first.card, "elmo average, which mixed its weights"))
