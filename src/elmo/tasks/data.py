"""Files of labelled examples -> the three parts that training needs, read alike."""

import dataclasses
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elmo.errors import InputError
from elmo.tasks.readers.formats import ReadSettings, open_reader
from elmo.tasks.settings import FitSettings

logger = logging.getLogger(__name__)

LabelMap = Mapping[str, str]


@dataclass(frozen=True)
class Parts:
    """Labelled examples. `dev` decides when to stop, `test` is only looked at in the end and may be empty."""

    train: list[Any]
    dev: list[Any]
    test: list[Any]
    read: ReadSettings
    notes: tuple[str, ...] = field(default=())  # what was decided for the user, in sentences


def read_parts(
    family: str, train: str, dev: str | None, test: str | None, read: ReadSettings, label_map: LabelMap
) -> Parts:
    """Read the files; without a dev file, `dev` is empty and draw_training takes it from the training examples."""
    examples, found = read_examples(train, family, read, label_map)
    notes = []
    if found.columns and found.columns != dict(read.columns):
        listed = ", ".join(f"{role}={name}" for role, name in found.columns.items())
        kind = f", whose target is a {found.pair_target}" if family == "pairs" else ""
        notes.append(f"{train} is read as {found.format} with columns {listed}{kind}; change that with --column.")
    others: list[list[Any]] = []
    for path in (dev, test):
        if path is None:
            others.append([])
            continue
        is_alike = Path(path).suffixes[-1:] == Path(train).suffixes[-1:]
        target = found.pair_target if family == "pairs" else "auto"
        alike = found if is_alike else dataclasses.replace(read, pair_target=target)
        others.append(read_examples(path, family, alike, label_map)[0])
    return Parts(examples, others[0], others[1], found, tuple(notes))


def read_examples(
    path: str, family: str, read: ReadSettings, label_map: LabelMap | None = None
) -> tuple[list[Any], ReadSettings]:
    """Read all labelled examples of a file, and give how it was read."""
    opened = open_reader(path, family, read)
    examples = list(map_labels(opened.reader, label_map or {}))
    if family == "pairs":
        examples = _leave_out_disputed(examples, path)
    if not examples:
        raise InputError(f"{path} has no examples with a label; nothing can be learned or measured.")
    return examples, opened.settings


def _leave_out_disputed(pairs: list[Any], path: str) -> list[Any]:
    """Leave out pairs whose annotators did not agree: SNLI marks them by -, or by -1 beside 0 to 2."""
    labels = {pair.target for pair in pairs}
    mark = "-" if "-" in labels else "-1" if labels == {"-1", "0", "1", "2"} else None
    kept = [pair for pair in pairs if pair.target != mark]
    if mark is not None and kept:
        logger.warning("%s: %d pair(s) without a label (%s) are left out.", path, len(pairs) - len(kept), mark)
        return kept
    return pairs


def map_labels(examples: Any, label_map: LabelMap) -> Any:
    """Rename labels; an example whose label becomes empty is left out, and so is such a phrase."""
    for example in examples:
        if not label_map:
            yield example
            continue
        name = "target" if hasattr(example, "target") else "label"
        if not hasattr(example, name):
            raise InputError("--map-label is for labels of texts, pairs and relations; these examples have none.")
        label = label_map.get(getattr(example, name), getattr(example, name))
        changes: dict[str, Any] = {name: label}
        if getattr(example, "phrases", ()):
            phrases = ((span, label_map.get(value, value)) for span, value in example.phrases)
            changes["phrases"] = tuple((span, value) for span, value in phrases if value)
        if label:
            yield dataclasses.replace(example, **changes)


def draw_training(parts: Parts, settings: FitSettings) -> tuple[list[Any], list[Any]]:
    """Give the training and the dev examples of a run: a fraction drawn by the seed, dev apart if it has no file.

    The dev examples are drawn by a seed of their own, so that runs with other seeds are measured alike.
    """
    train, dev = parts.train, parts.dev
    if not dev:
        if len(train) < 2:
            raise InputError("One training example is too few to take dev examples from; give a dev file.")
        order = list(range(len(train)))
        random.Random(20180215).shuffle(order)
        num_dev = min(len(train) - 1, max(1, round(len(train) * settings.dev_fraction)))
        taken = set(order[:num_dev])
        dev = [train[number] for number in sorted(taken)]
        train = [example for number, example in enumerate(train) if number not in taken]
    if settings.fraction < 1:
        num_kept = max(1, round(len(train) * settings.fraction))
        kept = sorted(random.Random(settings.seed).sample(range(len(train)), num_kept))
        train = [train[number] for number in kept]
    return train, dev


def length_batches(lengths: Sequence[int], batch_size: int, draw: random.Random) -> list[list[int]]:
    """Cut shuffled examples into batches of similar length, in random order."""
    order = list(range(len(lengths)))
    draw.shuffle(order)
    pool = 50 * batch_size
    batches = []
    for start in range(0, len(order), pool):
        part = sorted(order[start : start + pool], key=lambda number: lengths[number])
        batches += [part[at : at + batch_size] for at in range(0, len(part), batch_size)]
    draw.shuffle(batches)
    return batches


def predict_all(
    examples: Sequence[Any], lengths: Sequence[int], predict: Callable[[list[Any]], list[Any]], batch_size: int
) -> list[Any]:
    """Predict in batches of similar length; the results are in the order of the examples."""
    order = sorted(range(len(examples)), key=lambda number: lengths[number])
    predictions: list[Any] = [None] * len(examples)
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        for number, prediction in zip(batch, predict([examples[number] for number in batch]), strict=True):
            predictions[number] = prediction
    return predictions
