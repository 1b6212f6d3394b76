"""Models of a few thousand weights, and sentences of two topics whose labels can be learned from their words."""

import importlib.util
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from elmo import Elmo
from elmo.config import CharacterConfig, EncoderConfig, ModelConfig, WordConfig

DATA = Path(__file__).parents[3] / "shared" / "data" / "tasks"
MONEY = ["money", "cash", "loan", "account", "deposit", "credit"]
RIVER = ["river", "water", "boat", "fish", "mud", "reeds"]
COMMON = ["the", "a", "of", "and", "to"]
VOCABULARY = ("<S>", "</S>", "<UNK>", "the", "bank", *MONEY, *RIVER, *COMMON[1:])
CONFIG = ModelConfig(
    encoder=EncoderConfig(num_layers=2, cell_dim=48, output_dim=32),
    characters=CharacterConfig(filters=((1, 8), (2, 16), (3, 16)), embedding_dim=8, num_highways=1),
)
# What an adapter must get right: different lengths, several scripts, words longer than the model reads, an emoji.
SENTENCES = [
    ["I", "went", "to", "the", "bank", "."],
    ["Hello"],
    ["the", "river", "and", "the", "x" * 80, "of", "the", "naïve", "日本", "🙂"],
    ["the", "bank"],
]


def make_models() -> dict[str, Elmo]:
    words = WordConfig(len(VOCABULARY), 12)
    configs = {
        "characters": CONFIG,
        "words": replace(CONFIG, characters=None, words=words),
        "both": replace(CONFIG, words=words),
    }
    return {
        name: Elmo.from_config(config, seed=4, vocabulary=VOCABULARY if config.words else None)
        for name, config in configs.items()
    }


def needs(*packages: str) -> pytest.MarkDecorator:
    """Skip a test, or a file of them, where a library is not installed."""
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    reason = f"not installed: {', '.join(missing)} (see the extras of modern-elmo)"
    return pytest.mark.skipif(bool(missing), reason=reason)


def needs_data(name: str) -> pytest.MarkDecorator:
    path = DATA / name
    return pytest.mark.skipif(not path.exists(), reason=f"the dataset {name} is not on this machine")


def make_tagged(num_sentences: int, seed: int = 0) -> list[tuple[list[str], list[str]]]:
    """Words, and a tag for each: the topic, or O."""
    draw = random.Random(seed)
    made = []
    for _ in range(num_sentences):
        topic, tag = draw.choice(((MONEY, "MONEY"), (RIVER, "RIVER")))
        choices = [((COMMON, "O"), (topic, tag))[draw.randrange(2)] for _ in range(7)]
        pairs = [(draw.choice(words), name) for words, name in choices]
        made.append(([word for word, _ in pairs], [tag for _, tag in pairs]))
    return made


def make_topics(num_sentences: int, seed: int = 0) -> tuple[list[str], list[int]]:
    """Texts and whether each is about rivers."""
    draw = random.Random(seed)
    texts, labels = [], []
    for _ in range(num_sentences):
        label = draw.randrange(2)
        words = [draw.choice(COMMON) for _ in range(4)] + [draw.choice((MONEY, RIVER)[label]) for _ in range(4)]
        draw.shuffle(words)
        texts.append(" ".join(words))
        labels.append(label)
    return texts, labels


def read_sst(name: str) -> tuple[list[str], list[int]]:
    """Sentences of the Stanford Sentiment Treebank that are not neutral, and whether each is positive."""
    texts, labels = [], []
    for line in (DATA / "sentiment" / name).read_text(encoding="utf-8").splitlines():
        if line[1] != "2":
            texts.append(" ".join(re.findall(r" ([^() ]+)\)", line)))
            labels.append(int(line[1] > "2"))
    return texts, labels


def read_conll(name: str) -> list[tuple[list[str], list[str]]]:
    """Words and tags of each sentence of a file with a word and its tag per line."""
    text = (DATA / name).read_text(encoding="utf-8")
    sentences = []
    for block in re.split(r"\n\s*\n", text.strip()):
        pairs = [line.split("\t") for line in block.splitlines()]
        sentences.append(([pair[0] for pair in pairs], [pair[1] for pair in pairs]))
    return sentences
