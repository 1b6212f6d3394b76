"""A toy corpus in which context reveals the topic, money or rivers; "bank" occurs with both."""

import random

from elmo.corpus.prepare import prepare

MONEY = ["money", "cash", "loan", "account", "deposit", "credit"]
RIVER = ["river", "water", "boat", "fish", "mud", "reeds"]
COMMON = ["the", "a", "of", "and", "to"]


def make_topics(num_sentences: int, seed: int = 0) -> str:
    draw = random.Random(seed)
    lines = []
    for _ in range(num_sentences):
        topic = draw.choice((MONEY, RIVER))
        words = [draw.choice(COMMON) if draw.random() < 0.5 else draw.choice(topic) for _ in range(8)]
        words.insert(draw.randrange(8), draw.choice(("bank", "Bank", topic[0])))
        lines.append(" ".join(words))
    return "".join(f"{line}\n" for line in lines)


def prepare_topics(folder, num_sentences=2000):
    (folder / "text.txt").write_text(make_topics(num_sentences))
    prepare([str(folder / "text.txt")], folder / "corpus", split="lines", vocabulary_size=30, num_workers=1)
    return folder / "corpus"
