"""A small text with learnable structure, prepared once."""

import random

import pytest

from elmo.corpus.prepare import prepare
from elmo.pretrain.settings import read_settings

NOUNS = ["bank", "river", "cat", "market", "king", "tree"]
VERBS = ["sees", "likes", "finds", "sells"]


def make_text(seed: int, num_sentences: int, *, nouns: list[str] = NOUNS) -> str:
    """Sentences of a tiny grammar: after "the" comes a noun, after a noun a verb or the end."""
    rng = random.Random(seed)
    lines = []
    for _ in range(num_sentences):
        words = ["the", rng.choice(nouns), rng.choice(VERBS), "the", rng.choice(nouns)]
        if rng.random() < 0.5:
            words += ["and", rng.choice(VERBS), "a", rng.choice(nouns)]
        lines.append(" ".join([*words, "."]))
    return "".join(f"{line}\n" for line in lines)


class StopError(Exception):
    """Ends a run in the middle."""


def interrupt(run, update: int) -> None:
    """Train until an update, and stop there as an error would."""

    def stop():
        if run.state.num_updates == update:
            raise StopError

    with pytest.raises(StopError):
        run.train(should_stop=stop)


@pytest.fixture(scope="session")
def corpus_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    (folder / "text.txt").write_text(make_text(0, 4000))
    prepare([str(folder / "text.txt")], folder / "corpus", split="lines", vocabulary_size=18, num_workers=1)
    return folder / "corpus"


@pytest.fixture(scope="session")
def validation_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("validation") / "valid.txt"
    path.write_text(make_text(1, 60))
    return path


@pytest.fixture
def tiny_settings():
    """Settings for a run of seconds; `changes` are by dotted name."""

    def make(**changes):
        base = {
            "model.encoder.cell_dim": 16,
            "model.encoder.output_dim": 8,
            "num_rows": 4,
            "num_steps": 10,
            "num_samples": 8,
            "max_updates": 20,
            "log_every": 1,
            "checkpoint_every": 10,
            "validate_every": 1000,
        }
        if "model.encoder" in changes:  # one of another kind, given whole
            base = {name: value for name, value in base.items() if not name.startswith("model.encoder.")}
        return read_settings(preset="tiny", changes={**base, **changes})

    return make
