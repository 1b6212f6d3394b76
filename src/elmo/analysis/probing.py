"""Files of labelled data and a model -> what each layer knows. One function for every kind of probe."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias, get_args

from elmo.analysis.probe_results import ProbeResult
from elmo.analysis.probe_senses import probe_senses
from elmo.analysis.probe_similarity import probe_similarity
from elmo.analysis.probe_tagging import LabelledSentence, probe_linear, read_features, read_tags
from elmo.errors import InputError
from elmo.model import Elmo
from elmo.tasks.readers import open_reader
from elmo.tasks.readers.datasets import read_first_senses
from elmo.tasks.settings import ReadSettings
from elmo.tasks.shared_inputs import read_examples

ProbeKind: TypeAlias = Literal["tagging", "features", "classification", "senses", "similarity"]
KINDS: tuple[ProbeKind, ...] = get_args(ProbeKind)
DEFAULT_MAX_TRAIN_WORDS: dict[str, int] = {
    "tagging": 100_000, "features": 100_000, "classification": 200_000, "senses": 1_000_000,
}  # fmt: skip
DEFAULT_MAX_TEST_WORDS = 50_000


def probe(
    model: Elmo,
    kind: ProbeKind,
    *,
    test: str,
    train: str | None = None,
    format: str | None = None,
    columns: Mapping[str, str] | None = None,
    sense_index: str | None = None,
    seeds: Sequence[int] = (0, 1, 2),
    max_train_words: int | None = None,
    max_test_words: int | None = None,
    advance: Callable[[int], None] = lambda num_words: None,
) -> ProbeResult:
    """Measure each layer, the average and the learned mix on labelled data.

    tagging: linear classifiers of words, with `columns={"tag": "xpos"}` for another column. features: the same for
    each feature of CoNLL-U's FEATS, among the words that have it. classification: the same for the mean vectors of
    texts. senses: the nearest mean of a lemma's senses; `sense_index` is WordNet's index.sense, for lemmas that
    training lacks. similarity: correlation of cosines with scores. Without limits of words, those of
    DEFAULT_MAX_TRAIN_WORDS and DEFAULT_MAX_TEST_WORDS hold.
    """
    if kind not in KINDS:
        raise InputError(f"There is no probe {kind!r}; choose one of {', '.join(KINDS)}.")
    if not seeds:
        raise InputError("A probe needs at least one seed.")
    if train is None and kind != "similarity":
        raise InputError(f"The probe {kind} learns from examples; name a file of them with --train.")
    if sense_index is not None and kind != "senses":
        raise InputError("The index of senses is for the probe senses; leave it out.")
    if kind == "similarity" and (max_train_words or max_test_words):
        raise InputError("The probe similarity reads all pairs; leave the limits of words out.")
    if kind == "senses" and max_test_words:
        raise InputError("The probe senses reads all words of the test file; leave their limit out.")
    limit = max_train_words or DEFAULT_MAX_TRAIN_WORDS.get(kind)
    read = ReadSettings(format, dict(columns or {}), pair_target="score" if kind == "similarity" else "auto")
    if kind == "similarity":
        taught = None if train is None else read_examples(train, "pairs", read)[0]
        return probe_similarity(model, taught, read_examples(test, "pairs", read)[0], seeds=seeds, advance=advance)
    assert train is not None
    if kind == "senses":
        return probe_senses(
            model,
            open_reader(train, "senses", read).reader,
            open_reader(test, "senses", read).reader,
            seeds=seeds,
            max_train_words=limit,
            first_senses=None if sense_index is None else read_first_senses(sense_index),
            advance=advance,
        )
    return probe_linear(
        model,
        kind,
        _read_sentences(train, kind, read),
        _read_sentences(test, kind, read),
        seeds=seeds,
        max_train_words=limit,
        max_test_words=max_test_words or DEFAULT_MAX_TEST_WORDS,
        advance=advance,
    )


def _read_sentences(path: str, kind: str, read: ReadSettings) -> list[LabelledSentence]:
    if kind == "classification":
        examples, _ = read_examples(path, "classification", read)
        return [LabelledSentence(each.words, ({"label": each.label},)) for each in examples]
    if kind == "features" and "tag" not in read.columns:
        read = ReadSettings(read.format, {**read.columns, "tag": "feats"})
    examples, _ = read_examples(path, "tagging", read)
    take = read_features if kind == "features" else read_tags
    return [LabelledSentence(each.words, take(each.tags)) for each in examples if each.words]
