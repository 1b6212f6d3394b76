"""Write Chinese sentences with the vectors of an English teacher, which a dictionary connects to them.

    python recipes/zh-small/glosses.py CORPUS.txt DICTIONARY TEACHER OUTPUT --english SENTENCES ENGLISH-CACHE

No Chinese encoder with a suitable license was available. The sentences are clauses of CORPUS, translated word by word
by the first gloss of DICTIONARY (CC-CEDICT, CC BY-SA 4.0) and encoded by TEACHER; and the English sentences of en-small
(a prepared corpus), translated word by word into Chinese, with the vectors of the originals.
OUTPUT gets sentences.txt for `elmo prepare --split lines` and vectors.npy, in groups of four related sentences.
"""

import argparse
import gzip
import lzma
import random
import re
from collections.abc import Iterator
from pathlib import Path

import jieba
import numpy as np
import torch

from elmo.corpus.prepared import PreparedCorpus
from elmo.pretrain.teacher import GROUP, Teacher

SHORTEST, LONGEST = 4, 26  # characters of a clause
AT_ONCE = 4096
NO_GLOSS = re.compile(r"surname |variant of|^abbr\.|^see |^used in|^CL:|^old |^Japanese|^classifier|^also |^Taiwan pr")
CHINESE = {
    "的": "", "了": "", "着": "", "地": "", "得": "", "个": "", "把": "", "正在": "", "是": "is", "在": "in",
    "不": "not", "没": "not", "没有": "no", "和": "and", "与": "and", "及": "and", "或": "or", "对": "to",
    "从": "from", "为": "for", "被": "by", "由": "by", "而": "and", "但": "but", "也": "also", "都": "all",
    "有": "has", "上": "on", "中": "in", "里": "in", "内": "in", "他": "he", "她": "she", "它": "it", "我": "I",
    "你": "you", "这": "this", "那": "that", "一": "one", "很": "very", "更": "more", "最": "most", "于": "in",
    "以": "with", "等": "etc", "其": "its", "该": "this", "并": "and", "会": "will", "可": "can", "能": "can",
    "要": "want", "就": "then", "到": "to", "说": "say", "做": "do", "打": "play", "使": "make", "让": "let",
    "将": "will", "后": "after", "前": "before", "男人": "man", "一个": "a", "弹": "play", "骑": "ride",
    "女孩": "girl", "只": "", "两": "two", "两只": "two", "穿": "wear", "拉": "pull", "切": "cut", "跳": "jump",
    "坐": "sit", "站": "stand", "走": "walk", "吃": "eat",
}  # fmt: skip
ENGLISH = {
    "the": "", "a": "一个", "an": "一个", "of": "的", "'s": "的", "to": "", "and": "和", "in": "在", "on": "在",
    "at": "在", "by": "被", "with": "用", "for": "为", "from": "从", "is": "是", "are": "是", "was": "是",
    "were": "是", "be": "是", "been": "", "being": "", "has": "有", "have": "有", "had": "有", "not": "不",
    "n't": "不", "no": "没有", "do": "", "does": "", "did": "", "will": "会", "would": "会", "can": "能",
    "could": "能", "he": "他", "she": "她", "it": "它", "they": "他们", "i": "我", "you": "你", "we": "我们",
    "his": "他的", "her": "她的", "their": "他们的", "its": "它的", "my": "我的", "your": "你的", "this": "这",
    "that": "那", "these": "这些", "those": "那些", "who": "谁", "which": "哪个", "what": "什么",
    "there": "那里", "or": "或", "but": "但是", "as": "作为", "men": "男人", "women": "女人", "man": "男人",
    "woman": "女人", "people": "人们", "two": "两个", "three": "三个", "some": "一些", "one": "一个",
    "playing": "玩", "play": "玩", "says": "说", "child": "孩子", "children": "孩子们", "couple": "情侣",
    "said": "说", ".": "。", ",": "，", "?": "？", "-": "", '"': "",
}  # fmt: skip


class Dictionary:
    """CC-CEDICT, from Chinese to the first gloss and from English to the usual Chinese words."""

    def __init__(self, path: Path) -> None:
        self._glosses: dict[str, str] = {}
        candidates: dict[str, dict[str, float]] = {}
        jieba.initialize()
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("#") or (entry := re.match(r"\S+ (\S+) \[[^]]*\] /(.*)/", line)) is None:
                    continue
                word, glosses = entry[1], [gloss for gloss in entry[2].split("/") if not NO_GLOSS.search(gloss)]
                texts = [_clean(meaning) for gloss in glosses for meaning in gloss.split(";")]
                texts = [text for text in texts if text]
                if not texts:
                    continue
                self._glosses.setdefault(word, texts[0])
                frequency = float(jieba.dt.FREQ.get(word, 0)) + 0.5
                if frequency > 5:
                    for rank, text in enumerate(texts[:6]):
                        scores = candidates.setdefault(text.lower(), {})
                        scores[word] = max(scores.get(word, 0.0), frequency / (1 + rank) ** 2)
        self._words = {text: _keep_best(scores) for text, scores in candidates.items()}
        self._words.update({text: [(word, 1.0)] for text, word in ENGLISH.items()})
        self._glosses.update(CHINESE)

    def to_english(self, text: str) -> list[str]:
        """Return the glosses of the words of a Chinese text."""
        return [token for word in jieba.cut(text) for token in self._glosses.get(word, word).split()]

    def to_chinese(self, words: list[str], rng: random.Random) -> str | None:
        """Return a sentence word for word, phrases first; None if too many words have no translation."""
        translated, missing, start = [], 0, 0
        while start < len(words):
            is_progressive = start + 1 < len(words) and words[start + 1].endswith("ing")
            if is_progressive and words[start].lower() in {"is", "are", "was", "were"}:
                translated.append("正在")
                start += 1
                continue
            for size in (3, 2, 1):
                phrase = " ".join(words[start : start + size]).lower()
                if start + size <= len(words) and (options := self._look_up(phrase)):
                    chosen = rng.choices([word for word, _ in options], [score for _, score in options])
                    translated += chosen
                    start += size
                    break
            else:
                missing += words[start].isalpha() and words[start].islower()
                translated.append(words[start] if words[start].isalnum() else "")
                start += 1
        return None if missing > len(words) / 5 else "".join(translated)

    def _look_up(self, phrase: str) -> list[tuple[str, float]] | None:
        forms = [phrase]
        for ending, others in (
            ("ies", ["y"]), ("es", ["", "e"]), ("s", [""]), ("ied", ["y"]), ("ed", ["", "e"]), ("ing", ["", "e"]),
        ):  # fmt: skip
            if phrase.endswith(ending) and len(phrase) > len(ending) + 2:
                stem = phrase[: -len(ending)]
                forms += [stem + other for other in others]
                if len(stem) > 3 and stem[-1] == stem[-2]:
                    forms.append(stem[:-1])
        return next((self._words[form] for form in forms if form in self._words), None)


def _clean(gloss: str) -> str:
    text = re.sub(r"\([^)]*\)|\[[^]]*\]|~", " ", gloss)
    text = re.sub(r"^\s*(to be|to|a|an|the|sth|sb)\s+", "", " ".join(text.split()))
    return text if len(text.split()) <= 3 and not re.search(r"[|:,一-鿿]", text) else ""


def _keep_best(scores: dict[str, float]) -> list[tuple[str, float]]:
    best = sorted(scores.items(), key=lambda item: -item[1])[:3]
    return [(word, score) for word, score in best if score > 0.25 * best[0][1]]


def read_clauses(corpus: Path, num_groups: int, rng: random.Random) -> Iterator[list[str]]:
    """Yield groups of neighboring clauses."""
    with lzma.open(corpus, "rt", encoding="utf-8") as lines:
        paragraphs = rng.sample([line for line in lines if len(line) > 60], num_groups)
    for paragraph in paragraphs:
        sentences = [text for text in re.split("(?<=[。！？])", paragraph.strip()) if text]
        start = rng.randrange(len(sentences))
        pieces = [piece for text in sentences[start:] for piece in _cut(text, rng)][:GROUP]
        if len(pieces) == GROUP:
            yield pieces


def _cut(sentence: str, rng: random.Random) -> list[str]:
    if SHORTEST <= len(sentence) <= LONGEST and rng.random() < 0.5:
        return [sentence]
    return [clause for clause in re.split("[，；：、。！？]", sentence) if SHORTEST <= len(clause) <= LONGEST][:2]


def negate(clause: str) -> str | None:
    """Insert 不 or 没 before a common verb, or remove it; None without such a verb."""
    for verb in ("是", "会", "能", "喜欢", "有", "在", "想", "要", "去", "可以"):
        negation = "没" if verb == "有" else "不"
        if negation + verb in clause:
            return clause.replace(negation + verb, verb, 1)
        if verb in clause[1:]:
            return clause[0] + clause[1:].replace(verb, negation + verb, 1)
    return None


def main() -> None:
    """Write the sentences and their vectors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("corpus", "dictionary", "teacher", "output"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--english", type=Path, nargs=2, required=True)
    parser.add_argument("--groups", type=int, default=60_000)
    parser.add_argument("--translated", type=int, default=80_000, help="groups of English sentences")
    options = parser.parse_args()
    rng = random.Random(5)
    dictionary = Dictionary(options.dictionary)
    options.output.mkdir(parents=True, exist_ok=True)
    groups = []
    for clauses in read_clauses(options.corpus, options.groups, rng):
        if rng.random() < 0.3 and (negated := negate(clauses[0])):
            clauses[1] = negated
        groups.append(clauses)
    teacher = Teacher(str(options.teacher), precision=torch.bfloat16)
    lines = [clause for group in groups for clause in group]
    vectors = [
        teacher.encode(
            [dictionary.to_english(line) or ["."] for line in lines[start : start + AT_ONCE]]
        ).sentences.half()
        for start in range(0, len(lines), AT_ONCE)
    ]
    corpus, cache = PreparedCorpus.open(options.english[0]), options.english[1]
    ids, offsets = np.load(cache / "ids.npy", mmap_mode="r"), np.load(cache / "offsets.npy")
    answers = np.load(cache / "sentences.npy", mmap_mode="r")
    kept: list[int] = []
    for group in range(min(options.translated, len(answers) // GROUP)):
        rows = range(group * GROUP, (group + 1) * GROUP)
        texts = [dictionary.to_chinese(corpus.words(ids[offsets[row] : offsets[row + 1]]), rng) for row in rows]
        if all(text is not None and len(text) >= 2 for text in texts):
            lines += [text for text in texts if text is not None]
            kept += rows
    vectors.append(torch.from_numpy(answers[kept]))
    (options.output / "sentences.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    np.save(options.output / "vectors.npy", torch.cat(vectors).numpy())
    print(f"{len(lines):,} sentences, {len(kept):,} of them translated")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
