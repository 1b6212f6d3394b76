"""Task: a trained task, ready to predict. `load` opens the folder that training wrote."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from elmo.checkpoint.fingerprint import fingerprint as content_hash
from elmo.errors import CheckpointError, InputError, first_line
from elmo.model import Elmo
from elmo.tasks.build import build_network, make_batcher
from elmo.tasks.examples import Words
from elmo.tasks.families.family import choose_family
from elmo.tasks.fit import Fitting, warn_of_unknown
from elmo.tasks.folder import BILM_FOLDER, BilmReference, TaskDescription, read_task
from elmo.tasks.readers.columns import TARGETS
from elmo.tasks.readers.unlabelled import PLACEHOLDERS, refuse_replacing
from elmo.text.tokenize import Word, split_on_spaces, tokenize

EXAMPLES_AT_ONCE = 256
_BILM_PREFIX = "encoder.elmo.bilm."


class Task:
    """A trained network with all it needs. Several threads may call it; they take turns."""

    def __init__(self, description: TaskDescription, fitting: Fitting, layers: "RecentLayers | None") -> None:
        self.description = description
        self._fitting, self._layers = fitting, layers
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        targets = sorted(self.targets)
        shown = f", {len(targets)} labels: {', '.join(targets[:5])}{', …' if len(targets) > 5 else ''}"
        return f"Task({self.family}{shown if targets else ''})"

    @property
    def family(self) -> str:
        """The name of the family."""
        return self.description.family

    @property
    def targets(self) -> frozenset[str]:
        """The labels or tags to predict, and their names before --map-label; empty for scores and answers."""
        labels = self.description.labels
        named = {str(label) for label in labels.get("tags") or labels.get("labels") or ()}
        return frozenset(named | set(self.description.label_map))

    @property
    def sense_entries(self) -> frozenset[str]:
        """The lemmas with their part of speech, as in bank#NOUN, that a task of senses knows."""
        labels = self.description.labels
        return frozenset(labels.get("senses", {})) | frozenset(labels.get("first_senses", {}))

    def tokenize(self, text: str) -> list[Word]:
        """Return the words of a text with their offsets, cut as those of training were."""
        return split_on_spaces(text) if self.description.read.split_on_spaces else tokenize(text)

    def predict(self, items: Iterable[Any]) -> list[Any]:
        """Give the prediction of each item, plain Python values, in their order.

        tagging and classification take texts (strings or lists of words), pairs take (first, second), relations
        texts with <e1>…</e1> and <e2>…</e2>, spans (question, passage), senses (sentence, [(start, end, lemma,
        pos), …]).
        """
        return list(self.predict_examples(self.read_items(items)))

    def read_items(self, items: Iterable[Any]) -> list[Any]:
        """Return the examples that `predict` makes of its items; InputError for an item that is none."""
        if isinstance(items, str | bytes):
            raise InputError("predict takes a list of items; put the one text in a list.")
        family = self._fitting.family
        if self.description.read.split_on_spaces:
            items = map(self._split, items)
        return [family.from_python(item) for item in items]

    def texts(self, example: Any) -> tuple[Words, ...]:
        """Return the words of each text of an example."""
        return self._fitting.family.texts(example)

    def _split(self, item: Any) -> Any:
        """Cut the texts of an item at spaces alone, as those of training were."""
        if isinstance(item, str) and self.family in ("tagging", "classification"):
            return [word.text for word in split_on_spaces(item)]
        if isinstance(item, tuple | list) and self.family == "pairs":
            cut = [split_on_spaces(text) if isinstance(text, str) else text for text in item]
            return [[word.text if isinstance(word, Word) else word for word in words] for words in cut]
        return item

    def predict_examples(self, examples: Iterable[Any]) -> Iterator[Any]:
        """Give the predictions of examples one by one, in their order; memory is bounded."""
        remaining = iter(examples)
        while part := list(islice(remaining, EXAMPLES_AT_ONCE)):
            with self._lock:
                self._read(part)
                predictions = self._fitting.predict(part)
            yield from predictions

    def check_replaced(self, examples: Iterable[Any]) -> Iterator[Any]:
        """Yield examples of a file without names of columns; InputError for one whose target is not a target.

        A prediction replaces the target, so words or the rest of a text must not be taken for it.
        """
        family, labels, renamed = self._fitting.family, self._fitting.labels, self.description.label_map
        for example in examples:
            # Any text may be an answer.
            found = family.unknown_targets(example, labels) if self.family != "spans" else ()
            # Such as _ or - stands for nothing.
            unknown = [
                each
                for each in found
                if any(map(str.isalnum, each)) and each not in renamed and each not in PLACEHOLDERS
            ]
            # A tag or two that training did not have may well stand in a file; a sentence of them does not.
            num_tags = len(set(getattr(example, "tags", None) or ()))
            if unknown and len(unknown) >= num_tags:
                raise refuse_replacing(str(example.place), unknown[0], TARGETS[self.family])
            yield example

    def evaluate(self, examples: Sequence[Any]) -> dict[str, float]:
        """Give the scores of labelled examples, in percent."""
        warn_of_unknown(self._fitting.family, self._fitting.labels, examples, "given")
        predictions = list(self.predict_examples(examples))
        return self._fitting.family.score(examples, predictions, self._fitting.labels)

    @property
    def metric(self) -> str:
        """The name of the score that decides."""
        return self._fitting.family.metric(self._fitting.labels)

    def _read(self, examples: Sequence[Any]) -> None:
        if self._layers is not None:
            self._layers.read(text for example in examples for text in self._fitting.family.texts(example))


class RecentLayers:
    """The layers of the sentences read last, rounded as those on disk are, so that both give the same scores."""

    def __init__(self, model: Elmo) -> None:
        self._model = model
        self._layers: dict[Words, npt.NDArray[np.float16]] = {}

    def read(self, sentences: Iterable[Words]) -> None:
        """Compute the layers of these sentences and forget the others."""
        wanted = list(dict.fromkeys(sentences))
        arrays = self._model.embed([list(words) for words in wanted], layers="all") if wanted else []
        self._layers = {
            words: array.transpose(1, 0, 2).astype(np.float16) for words, array in zip(wanted, arrays, strict=True)
        }

    def __call__(self, words: Words) -> npt.NDArray[np.float16]:
        """Give the layers (T, L+1, 2D) of one of them."""
        return self._layers[words]


def load(
    folder: str | Path,
    *,
    bilm: str | Path | Elmo | None = None,
    precision: str | None = None,
    device: str = "cpu",
    num_threads: int | None = None,
    local_files_only: bool = False,
) -> Task:
    """Open a trained task.

    `bilm` says where its biLM is now, if not where it was in training, or is the opened model, which several
    tasks may share; it must be the same one. `precision` is that of the biLM, else the one of training; `device`
    is where the biLM runs, `num_threads` and `local_files_only` are as for Elmo.from_pretrained.
    """
    folder = Path(folder)
    description, words, weights = read_task(folder)
    model = None
    if description.bilm is not None:
        options = {"device": device, "num_threads": num_threads, "local_files_only": local_files_only}
        options["precision"] = precision or description.bilm.precision
        model = _open_bilm(folder, description.bilm, bilm, options)
    settings = description.settings
    try:
        network = build_network(
            description.family, settings, description.labels, words,
            None if description.bilm is None else description.bilm.shape,
            tuned=model if settings.elmo.tune else None,
        )  # fmt: skip
        missing, unexpected = network.load_state_dict(weights, strict=False)
    except (RuntimeError, KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise CheckpointError(
            f"{folder} is damaged: its settings, labels and weights do not fit together "
            f"({first_line(error):.120}); copy it again or train again."
        ) from error
    missing = [name for name in missing if not name.startswith(_BILM_PREFIX)]
    if missing or unexpected:
        raise CheckpointError(
            f"{folder} is damaged: its weights do not fit ({', '.join([*missing, *unexpected][:5])})."
        )
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    layers = RecentLayers(model) if model is not None and not settings.elmo.tune else None
    fitting = Fitting(
        network.eval(), choose_family(description.family), description.labels, settings,
        make_batcher(settings, words, layers),
    )  # fmt: skip
    return Task(description, fitting, layers)


def split_bilm(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Give the weights without those of a tuned biLM, which has a folder of its own."""
    return {name: weight for name, weight in weights.items() if not name.startswith(_BILM_PREFIX)}


def _open_bilm(
    folder: Path, reference: BilmReference, given: str | Path | Elmo | None, options: dict[str, Any]
) -> Elmo:
    source: str | Path | None
    if isinstance(given, Elmo):
        model, source = given, "the model given"
    else:
        carried = folder / BILM_FOLDER if reference.is_carried else reference.source
        source = carried if given is None else given
        try:
            model = Elmo.from_pretrained(source, **options)
        except CheckpointError as error:
            raise CheckpointError(f"The biLM of {folder} could not be opened: {error}") from error
    found = content_hash(model)
    if found != reference.hash:
        raise CheckpointError(
            f"{folder} was trained with another biLM than {source or 'the default model'} (its hash is "
            f"{found[:12]}…, {reference.hash[:12]}… was expected); say where the right one is."
        )
    return model
