"""Task: a trained task, ready to predict. `load` opens the folder that training wrote."""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from elmo.checkpoint.fingerprint import context_fingerprint, fingerprint
from elmo.errors import CheckpointError, InputError, first_line
from elmo.model import Elmo
from elmo.notebook import html_table
from elmo.tasks.encoder import Batcher
from elmo.tasks.examples import Words
from elmo.tasks.families import choose_family
from elmo.tasks.fit import Predictor
from elmo.tasks.folder import BILM_FOLDER, BilmReference, TaskDescription, build_network, read_task
from elmo.tasks.layer_store import Values, read_layers
from elmo.tasks.readers import PLACEHOLDERS, refuse_replacing, settings_for_labelled
from elmo.tasks.readers.columns import TARGETS
from elmo.tasks.settings import ReadSettings
from elmo.tasks.shared_inputs import read_examples
from elmo.text.tokenize import Word, split_on_spaces, tokenize

EXAMPLES_AT_ONCE = 256
BILM_PREFIX = "encoder.elmo.bilm."


class Task:
    """A trained network with everything it needs. Several threads may call it; they take turns."""

    def __init__(self, description: TaskDescription, predictor: Predictor, layers: "RecentLayers | None") -> None:
        self.description = description
        self._predictor, self._layers = predictor, layers
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        targets = sorted(self.targets)
        shown = f", {len(targets)} labels: {', '.join(targets[:5])}{', …' if len(targets) > 5 else ''}"
        return f"Task({self.family}{shown if targets else ''})"

    def _repr_html_(self) -> str:
        facts = [("family", self.family), ("metric", self.metric)]
        return html_table([*facts, ("labels", ", ".join(sorted(self.targets)) or "none")], caption="Task")

    @property
    def family(self) -> str:
        """The name of the family."""
        return self.description.family

    @property
    def metric(self) -> str:
        """The name of the score that decides."""
        return self._predictor.metric

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
        """Return the words of a text with their offsets, split like those of training."""
        return split_on_spaces(text) if self.description.read.split_on_spaces else tokenize(text)

    def predict(self, items: Iterable[Any]) -> list[Any]:
        """Return the prediction of each item, such as a TagPrediction or LabelPrediction, in their order.

        tagging and classification take texts (strings or lists of words), pairs take (first, second), relations
        texts with <e1>…</e1> and <e2>…</e2>, question answering (question, passage), senses (sentence, [(start,
        end, lemma, pos), …]).
        """
        return list(self.predict_examples(self.read_items(items)))

    def evaluate(self, data: str | Path | Sequence[Any]) -> dict[str, float]:
        """Return the scores, in percent, of a file of labelled examples or of what read_examples returned."""
        if isinstance(data, str | Path):
            data = self.read_examples(data)
        self._predictor.warn_of_unknown(data, "given")
        predictions = list(self.predict_examples(data))
        return self._predictor.family.score(data, predictions, self._predictor.labels)

    def read_examples(
        self,
        file: str | Path,
        *,
        format: str | None = None,
        columns: Mapping[str, str] | None = None,
        header: bool | None = None,
    ) -> list[Any]:
        """Read labelled examples like those of training, unless the format differs or options are given."""
        trained, asked = self.description, ReadSettings(format, columns or {}, header)
        read = settings_for_labelled(str(file), self.family, trained.read, asked)
        return read_examples(str(file), self.family, read, trained.label_map)[0]

    def read_items(self, items: Iterable[Any]) -> list[Any]:
        """Return the examples that `predict` builds from its items; InputError for an item of another form."""
        if isinstance(items, str | bytes):
            raise InputError("predict takes a list of items; put the one text in a list.")
        if self.description.read.split_on_spaces:
            items = map(self._split, items)
        return [self._predictor.family.from_python(item) for item in items]

    def texts(self, example: Any) -> tuple[Words, ...]:
        """Return the words of each text of an example."""
        return self._predictor.family.texts(example)

    def _split(self, item: Any) -> Any:
        if isinstance(item, str) and self.family in ("tagging", "classification"):
            return [word.text for word in split_on_spaces(item)]
        if isinstance(item, tuple | list) and self.family == "pairs":
            return [
                [word.text for word in split_on_spaces(text)] if isinstance(text, str) else text for text in item
            ]
        return item

    def predict_examples(self, examples: Iterable[Any]) -> Iterator[Any]:
        """Yield the predictions of examples in their order; memory is bounded."""
        remaining = iter(examples)
        while chunk := list(islice(remaining, EXAMPLES_AT_ONCE)):
            with self._lock:
                if self._layers is not None:
                    self._layers.read(text for example in chunk for text in self.texts(example))
                predictions = self._predictor.predict(chunk)
            yield from predictions

    def check_replaced(self, examples: Iterable[Any]) -> Iterator[Any]:
        """Yield examples of a file without column names; InputError for one whose target the task does not know.

        A prediction replaces the target, so words or the rest of a text must not be taken for it.
        """
        renamed = self.description.label_map
        for example in examples:
            found: Sequence[str] = ()
            if self.family != "question_answering":  # any text may be an answer
                found = self._predictor.family.unknown_targets(example, self._predictor.labels)
            # A value such as _ or - is a placeholder.
            unknown = [
                each
                for each in found
                if any(map(str.isalnum, each)) and each not in renamed and each not in PLACEHOLDERS
            ]
            # A file may well have a tag or two that training did not have; a whole sentence of them it has not.
            num_tags = len(set(getattr(example, "tags", None) or ()))
            if unknown and len(unknown) >= num_tags:
                raise refuse_replacing(str(example.place), unknown[0], TARGETS[self.family])
            yield example


class RecentLayers:
    """The layers of the sentences read last, rounded like those on disk, so that both give the same scores."""

    def __init__(self, model: Elmo, *, with_context: bool) -> None:
        self._model, self._with_context = model, with_context
        self._layers: dict[Words, Values] = {}

    def read(self, sentences: Iterable[Words]) -> None:
        """Compute the layers of these sentences and forget the others."""
        wanted = list(dict.fromkeys(sentences))
        arrays = read_layers(self._model, wanted, with_context=self._with_context)
        self._layers = dict(zip(wanted, arrays, strict=True))

    def __call__(self, words: Words) -> Values:
        """Return the values of one of them."""
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
    settings, reference = description.settings, description.bilm
    model = None
    if reference is not None:
        options = {"device": device, "num_threads": num_threads, "local_files_only": local_files_only}
        model = _open_bilm(folder, reference, bilm, {**options, "precision": precision or reference.precision})
    shape = None if reference is None else reference.shape
    try:
        network = build_network(
            description.family, settings, description.labels, words, shape,
            tuned=model if settings.elmo.tune else None,
        )  # fmt: skip
        missing, unexpected = network.load_state_dict(weights, strict=False)
    except (RuntimeError, KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise CheckpointError(
            f"{folder} is damaged: its settings, labels and weights do not fit together "
            f"({first_line(error):.120}); copy it again or train again."
        ) from error
    missing = [name for name in missing if not name.startswith(BILM_PREFIX)]
    if missing or unexpected:
        raise CheckpointError(
            f"{folder} is damaged: its weights do not fit ({', '.join([*missing, *unexpected][:5])})."
        )
    network.eval().requires_grad_(False)
    layers = None
    if model is not None and not settings.elmo.tune:
        layers = RecentLayers(model, with_context=settings.elmo.context != "none")
    predictor = Predictor(
        network, choose_family(description.family), description.labels, Batcher(settings, words, shape, layers)
    )
    return Task(description, predictor, layers)


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
    found = fingerprint(model)
    if found != reference.hash:
        raise CheckpointError(
            f"{folder} was trained with another biLM than {source or 'the default model'} (its fingerprint is "
            f"{found[:12]}…, {reference.hash[:12]}… was expected); say where the right one is."
        )
    if reference.context_hash is not None and context_fingerprint(model) != reference.context_hash:
        raise CheckpointError(
            f"{folder} was trained with another context layer than {source or 'the default model'} has; say where "
            "the right biLM is."
        )
    return model
