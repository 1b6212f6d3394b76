"""A toy Chinese corpus of two topics: 苹果 occurs with fruit and with phones; and a small model trained on it."""

import random
from dataclasses import replace

from elmo import Elmo
from elmo.config import EncoderConfig, ModelConfig, SoftmaxConfig, TokenizationConfig, WordConfig
from elmo.corpus.prepare import prepare
from elmo.corpus.prepared import PreparedCorpus
from elmo.fusion.fuse import fuse

FRUIT = ["香蕉", "葡萄", "水果", "果汁", "好吃", "甜"]
PHONES = ["手机", "电脑", "屏幕", "软件", "公司", "新款"]
COMMON = ["的", "了", "我", "他", "很", "在"]


def make_text(num_sentences: int = 1500, seed: int = 0) -> str:
    draw = random.Random(seed)
    lines = []
    for _ in range(num_sentences):
        topic = draw.choice((FRUIT, PHONES))
        words = [draw.choice(COMMON) if draw.random() < 0.4 else draw.choice(topic) for _ in range(6)]
        words.insert(draw.randrange(6), draw.choice(("苹果", topic[0])))
        lines.append("".join(words) + "。")
    return "".join(f"{line}\n" for line in lines)


def prepare_characters(folder):
    (folder / "text.txt").write_text(make_text(), encoding="utf-8")
    return prepare(
        [str(folder / "text.txt")],
        folder / "corpus",
        split="lines",
        vocabulary_size=60,
        characters=("Han",),
        num_workers=1,
    ).folder


def make_model(corpus, *, aliases=None) -> Elmo:
    """A random language model over single characters, with a context layer made from the corpus."""
    vocabulary = PreparedCorpus.open(corpus).vocabulary
    config = ModelConfig(
        encoder=EncoderConfig(num_layers=2, cell_dim=16, output_dim=8),
        characters=None,
        words=WordConfig(len(vocabulary), 12),
        softmax=SoftmaxConfig(len(vocabulary)),
        tokenization=TokenizationConfig("characters"),
    )
    plain = Elmo.from_config(config, vocabulary=vocabulary)
    with_aliases = Elmo(replace(plain.checkpoint(), aliases=aliases or {}))
    return fuse(with_aliases, corpus, dim=8, window=24, focus=3, share=3, frequency=1e-2)
