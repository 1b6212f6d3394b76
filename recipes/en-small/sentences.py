"""Write the tokenized sentences that a teacher encodes for en-small, in groups of GROUP related sentences.

    python recipes/en-small/sentences.py CORPUS OUTPUT --groups 100000 --tasks DATA/tasks

CORPUS is a prepared corpus. A group contains adjacent sentences or clauses of a text; or a sentence and a contrast,
with the noun phrases around its verb swapped, or a negation inserted or removed; or a sentence and variants, in which
words are replaced by related ones according to the static vectors. With --tasks, raw text of training sets whose
license permits it (SNLI, SQuAD, UD English EWT, WNUT 2017, SemEval-2010 task 8) is added, with --variants groups of
variants per sentence, and --recombined groups of captions with the subject of one and the predicate of another.
--wordnet adds the definitions and examples of WordNet (Debian's package wordnet-base). No labels are read. The output
is for `elmo prepare --split lines --split-on-spaces`.
"""

import argparse
import itertools
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import elmo
from elmo import Elmo
from elmo.checkpoint.open import open_checkpoint
from elmo.corpus.prepared import BOS_ID, PreparedCorpus

EMBEDDED = Path(elmo.__file__).parent / "models" / "en-small"
GROUP = 4
SHORTEST, LONGEST = 4, 22  # words
AUXILIARIES = {
    "is", "are", "was", "were", "can", "could", "will", "would", "should", "may", "must", "has", "have", "had",
    "does", "do", "did",
}  # fmt: skip
DETERMINERS = {"the", "a", "an", "his", "her", "their", "its", "my", "our", "your", "some", "this", "that"}
PREPOSITIONS = {"of", "in", "on", "at", "by", "with", "from", "to", "for", "and", "or", "than", "before", "after"}


def main() -> None:
    """Write the lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--groups", type=int, default=100_000)
    parser.add_argument("--tasks", type=Path)
    parser.add_argument("--wordnet", type=Path)
    parser.add_argument("--variants", type=int, default=2)
    parser.add_argument("--recombined", type=int, default=0)
    parser.add_argument("--seed", type=int, default=31)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    related = Related()
    groups = list(from_corpus(PreparedCorpus.open(options.corpus), options.groups, rng, related))
    if options.tasks is not None:
        groups += from_tasks(options.tasks, rng, related, options.variants)
        groups += recombine_captions(options.tasks, options.recombined, rng, related)
    if options.wordnet is not None:
        groups += from_wordnet(options.wordnet, rng)
    rng.shuffle(groups)
    with options.output.open("w", encoding="utf-8") as file:
        for group in groups:
            file.writelines(f"{' '.join(words)}\n" for words in group)
    print(f"{len(groups):,} groups, {sum(len(words) for group in groups for words in group):,} words")


class Related:
    """Related words of the same form, by the static vectors of the included model."""

    def __init__(self, num_words: int = 20_000, num_related: int = 12) -> None:
        layer = open_checkpoint(EMBEDDED).context
        assert layer is not None
        vectors = layer.arrays["vectors"][:num_words].astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        known_words = layer.words[:num_words]
        self._related: dict[str, list[str]] = {}
        endings = np.array([_ending(word) for word in known_words])
        for start in range(0, num_words, 1000):
            cosines = vectors[start : start + 1000] @ vectors.T
            cosines[endings[start : start + 1000, None] != endings] = -1
            nearest = np.argpartition(-cosines, num_related + 1)[:, : num_related + 1]
            for row, rows in enumerate(nearest.tolist(), start=start):
                self._related[known_words[row]] = [known_words[other] for other in rows if other != row]

    def vary(self, words: list[str], num_changes: int, rng: random.Random) -> list[str]:
        """Replace some content words by related ones, and sometimes drop one."""
        positions = [index for index, word in enumerate(words) if _is_content(word) and word.lower() in self._related]
        varied = list(words)
        for index in rng.sample(positions, min(num_changes, len(positions))):
            replacement = rng.choice(self._related[words[index].lower()])
            varied[index] = replacement.capitalize() if words[index][0].isupper() else replacement
        if positions and len(words) > SHORTEST + 1 and rng.random() < 0.2:
            del varied[rng.choice(positions)]
        return varied


def _ending(word: str) -> str:
    return next((ending for ending in ("ing", "ed", "ly", "s") if word.endswith(ending)), "")


def from_corpus(
    corpus: PreparedCorpus, num_groups: int, rng: random.Random, related: Related
) -> Iterator[list[list[str]]]:
    """Yield groups of adjacent sentences and clauses; a quarter of them have contrasts, and a quarter variants."""
    blocks = corpus.blocks()
    produced = 0
    while produced < num_groups:
        shard, start, stop = (int(number) for number in blocks[rng.randrange(len(blocks))])
        ids = corpus.read_block(shard, start, stop)
        bounds = [*np.flatnonzero(ids == BOS_ID).tolist(), len(ids)]
        for _ in range(max(1, len(bounds) // 12)):  # a few positions in each block
            first = rng.randrange(len(bounds) - 1)
            chosen = bounds[first : first + GROUP + 1]
            spans = itertools.pairwise(chosen)
            sentences = [corpus.words(ids[start + 1 : end]) for start, end in spans]
            pieces = [piece for sentence in sentences for piece in shorten(sentence, rng)]
            short = [piece for piece in pieces if len(piece) <= LONGEST - 8]
            if short and rng.random() < 0.25:
                group = with_variants(short[0], related, rng)
            else:
                group = complete(pieces[:GROUP], rng, contrasts=0.33)
            if group is not None:
                produced += 1
                yield group


def with_variants(words: list[str], related: Related, rng: random.Random) -> list[list[str]]:
    """Return a sentence with variants, each with more changes than the one before."""
    return [words, *(related.vary(words, changes, rng) for changes in (1, 2, 4))]


def from_tasks(folder: Path, rng: random.Random, related: Related, num_variants: int) -> list[list[list[str]]]:
    """Return groups of captions, questions and sentences of the training sets of the tasks, and of variants."""
    tokenize = Elmo.from_pretrained().tokenize
    texts: list[list[str]] = []
    captions: dict[str, list[str]] = {}
    for line in (folder / "entailment" / "snli-small-train.jsonl").read_text(encoding="utf-8").splitlines():
        pair = json.loads(line)
        captions.setdefault(pair["premise"], []).append(pair["hypothesis"])
    texts += [[premise, *others] for premise, others in captions.items()]
    squad = json.loads((folder / "qa" / "squad-small-train.json").read_text(encoding="utf-8"))
    for article in squad["data"]:
        texts += [[entry["question"] for entry in paragraph["qas"]] for paragraph in article["paragraphs"]]
    relations = (folder / "relations" / "semeval2010-train.txt").read_text(encoding="utf-8")
    sentences = re.findall(r'^\d+\t"(.*)"', relations, flags=re.MULTILINE)
    texts += [[re.sub(r"</?e\d>", "", sentence)] for sentence in sentences]
    treebank = (folder / "pos" / "ewt-train.conllu").read_text(encoding="utf-8")
    sentences = re.findall(r"^# text = (.*)", treebank, flags=re.MULTILINE)
    texts += [sentences[start : start + GROUP] for start in range(0, len(sentences), GROUP)]
    tweets = (folder / "ner" / "wnut17-train.conll").read_text(encoding="utf-8").split("\n\n")
    tweets = [" ".join(line.split("\t")[0] for line in tweet.splitlines()) for tweet in tweets]
    texts += [[tweet] for tweet in tweets if tweet.strip()]
    groups = []
    for lines in texts:
        tokenized = [list(words) for line in lines if (words := _words(tokenize(line)))]
        for start in range(0, len(tokenized), GROUP):
            group = complete([words[:LONGEST] for words in tokenized[start : start + GROUP]], rng, contrasts=0.5)
            if group is not None:
                groups.append(group)
        for words in tokenized:
            groups += [with_variants(words[:LONGEST], related, rng) for _ in range(num_variants)]
    return groups


def recombine_captions(folder: Path, num_groups: int, rng: random.Random, related: Related) -> list[list[list[str]]]:
    """Return groups of a caption, variants of its predicate and of its subject, and another caption's predicate."""
    tokenize = Elmo.from_pretrained().tokenize
    lines = (folder / "entailment" / "snli-small-train.jsonl").read_text(encoding="utf-8").splitlines()
    captions = {pair[name].strip() for pair in map(json.loads, lines) for name in ("premise", "hypothesis")}
    subjects, predicates = [], []
    for caption in sorted(captions):
        words = _words(tokenize(caption))
        verb = next((index for index, word in enumerate(words) if word in {"is", "are"}), 0)
        if 2 <= verb <= 6 and 3 <= len(words) - verb <= 12:
            subjects.append(words[:verb])
            predicates.append(words[verb:])
    by_auxiliary = {word: [predicate for predicate in predicates if predicate[0] == word] for word in ("is", "are")}
    groups = []
    for _ in range(num_groups):
        first = rng.randrange(len(subjects))
        second = rng.choice(
            [index for index in rng.sample(range(len(subjects)), 50) if _agree(predicates, first, index)]
        )
        subject, predicate = subjects[first], rng.choice(by_auxiliary[predicates[first][0]])
        groups.append([
            subject + predicate,
            subjects[second] + predicate,
            subject + related.vary(predicate, rng.choice((1, 1, 2)), rng),
            subject + rng.choice(by_auxiliary[predicate[0]]),
        ])  # fmt: skip
    return groups


def _agree(predicates: list[list[str]], first: int, second: int) -> bool:
    return first != second and predicates[first][0] == predicates[second][0]


def from_wordnet(folder: Path, rng: random.Random) -> list[list[list[str]]]:
    """Return groups of the definitions and examples of a WordNet synset and of synsets with the same hypernym."""
    tokenize = Elmo.from_pretrained().tokenize
    texts: dict[str, list[str]] = {}
    siblings: dict[str, list[str]] = {}
    for name in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{name}").read_text(encoding="utf-8").splitlines():
            if line.startswith(" "):
                continue
            fields, _, gloss = line.partition(" | ")
            columns = fields.split()
            synset = name + columns[0]
            definition, *_ = gloss.split('; "')
            texts[synset] = [definition.split(";")[0].strip(" ()"), *re.findall('"([^"]+)"', gloss)]
            first_pointer = 5 + 2 * int(columns[3], 16)  # columns[3] is the number of words
            pointers = range(first_pointer, first_pointer + 4 * int(columns[first_pointer - 1]), 4)
            hypernyms = [columns[index + 1] for index in pointers if columns[index] in {"@", "@i", "&"}]
            siblings.setdefault(name + (hypernyms[0] if hypernyms else columns[1]), []).append(synset)
    groups = []
    for synsets in siblings.values():
        rng.shuffle(synsets)
        lines = [line for synset in synsets for line in texts[synset] if len(line.split()) >= 3]
        tokenized = [_words(tokenize(line))[:LONGEST] for line in lines]
        for start in range(0, len(tokenized), GROUP):
            group = complete(tokenized[start : start + GROUP], rng, contrasts=0.2)
            if group is not None:
                groups.append(group)
    return groups


def _words(tokens: object) -> list[str]:
    return [getattr(token, "text", token) for token in tokens]  # type: ignore[attr-defined]


def shorten(sentence: list[str], rng: random.Random) -> list[list[str]]:
    """Return a sentence or, always for long ones and sometimes for others, one of its clauses."""
    if len(sentence) < SHORTEST:
        return []
    if len(sentence) <= LONGEST and rng.random() < 0.8:
        return [sentence]
    ends = [number for number, word in enumerate(sentence) if word in {",", ";", ":", "and", "but", "that", "which"}]
    bounds = [-1, *ends, len(sentence)]
    clauses = [sentence[start + 1 : end] for start, end in itertools.pairwise(bounds)]
    clauses = [clause for clause in clauses if SHORTEST <= len(clause) <= LONGEST]
    return [rng.choice(clauses)] if clauses else [sentence[:LONGEST]]


def complete(group: list[list[str]], rng: random.Random, *, contrasts: float) -> list[list[str]] | None:
    """Complete a group with contrasts of its sentences; return None if there are too few."""
    if not group:
        return None
    if rng.random() < contrasts or len(group) < GROUP:
        kept: list[list[str]] = []
        for words in group:
            variants = [variant for variant in (negate(words), exchange(words, rng)) if variant is not None]
            kept.append(words)
            if variants and len(kept) < GROUP:
                kept.append(rng.choice(variants))
        group = kept[:GROUP]
    while len(group) < GROUP:
        words = rng.choice(group)
        start = rng.randrange(0, max(1, len(words) // 3))
        group.append(words[start : max(start + SHORTEST, len(words) - rng.randrange(0, max(1, len(words) // 3)))])
    return group


def negate(words: list[str]) -> list[str] | None:
    """Insert or remove "not" after the first auxiliary verb; return None without such a verb."""
    for index, word in enumerate(words[:-1]):
        if word.lower() in AUXILIARIES:
            if words[index + 1].lower() in {"not", "n't", "never"}:
                return words[: index + 1] + words[index + 2 :]
            return [*words[: index + 1], "not", *words[index + 1 :]]
    return None


def exchange(words: list[str], rng: random.Random) -> list[str] | None:
    """Swap two noun phrases, roughly: a determiner and the words up to the next function word."""
    phrases: list[tuple[int, int]] = []
    start = 0
    while start < len(words):
        if words[start].lower() in DETERMINERS:
            end = start + 1
            while end < len(words) and end - start < 4 and _is_content(words[end]):
                end += 1
            if end - start >= 2:
                phrases.append((start, end - 1 if end - start > 3 else end))
            start = end
        else:
            start += 1
    if len(phrases) < 2:
        names = [number for number, word in enumerate(words) if number and word[:1].isupper() and word.isalpha()]
        phrases = [(number, number + 1) for number in names]
    phrases = [phrase for phrase in phrases if words[phrase[0]] != ""]
    if len(phrases) < 2:
        return None
    first = rng.randrange(len(phrases) - 1)
    (a, b), (c, d) = phrases[first], phrases[first + 1]
    left, right = words[a:b], words[c:d]
    if [word.lower() for word in left] == [word.lower() for word in right]:
        return None
    if a == 0:
        left, right = (
            [left[0][:1].lower() + left[0][1:], *left[1:]],
            [right[0][:1].upper() + right[0][1:], *right[1:]],
        )
    return words[:a] + right + words[b:c] + left + words[d:]


def _is_content(word: str) -> bool:
    lower = word.lower()
    return (
        word[:1].isalpha()
        and lower not in AUXILIARIES
        and lower not in DETERMINERS
        and lower not in PREPOSITIONS
        and lower not in {"not", "who", "which", "that", "he", "she", "it", "they", "but", "as", "when"}
    )


if __name__ == "__main__":
    main()
