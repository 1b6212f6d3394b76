"""Train the included taggers on labelled data: python recipes/taggers/run.py DATA

DATA contains pos/ewt-*.conllu, ner/wnut17-*.conll, zh/pos/*.conllu and zh/ner/*.iob2 (README.md lists the
sources). Each tagger is a task network with two convolutions over ELMo's layers alone, written as one file of float16
weights that NumPy runs. Takes about 5 CPU minutes in total.
"""

import argparse
import json
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from elmo import Elmo, tasks
from elmo.tasks.examples import locate_words
from elmo.tasks.families.metrics import score_labels, score_spans
from elmo.tasks.taggers import TAGGERS_FOLDER, Tagger

Sentence = tuple[str, list[str], list[str]]  # its text, words and tags
SPLITS = ("train", "dev", "test")
BIASES = np.arange(0, 4.25, 0.25)  # by which the score of O may be lowered, to find more entities


@dataclass(frozen=True)
class Recipe:
    """The data of one tagger."""

    files: str  # with {} for the split
    columns: tuple[int, int]  # of words and tags
    model: str
    data: str
    license: str
    num_epochs: int
    joins_words: bool = False  # character tags also mark word boundaries


RECIPES = {
    "en-entities": Recipe(
        "ner/wnut17-{}.conll", (0, 1), "en-small", "WNUT 2017 (posts, comments)", "CC BY 4.0", num_epochs=6
    ),
    "en-pos": Recipe(
        "pos/ewt-{}.conllu", (1, 3), "en-small", "UD English EWT (web text)", "CC BY-SA 4.0", num_epochs=3
    ),
    "zh-entities": Recipe(
        "zh/ner/{}.iob2", (1, 2), "zh-small", "UNER Chinese GSDSimp (Wikipedia)", "CC BY-SA 4.0", num_epochs=5
    ),
    "zh-pos": Recipe(
        "zh/pos/{}.conllu", (1, 3), "zh-small", "UD Chinese GSD (Wikipedia)", "CC BY-SA 4.0", num_epochs=4,
        joins_words=True,
    ),
}  # fmt: skip
RENAMED = {"CONJ": "CCONJ"}  # names of Universal Dependencies version 1


def read_sentences(path: Path, columns: tuple[int, int], *, spaced: bool) -> list[Sentence]:
    """Read the words and tags of CoNLL; the text comes from the comment, or from the joined words."""
    sentences = []
    for block in re.split(r"\n\s*\n", path.read_text(encoding="utf-8")):
        lines = block.split("\n")
        rows = [line.split("\t") for line in lines if line.strip() and not line.startswith("# ")]
        rows = [row for row in rows if len(row) < 3 or row[0].isdecimal()]  # skip the ranges of contractions
        if not rows:
            continue
        words = [row[columns[0]] for row in rows]
        tags = [RENAMED.get(row[columns[1]], row[columns[1]]) for row in rows]
        text = next((line[9:] for line in lines if line.startswith("# text = ")), "")
        try:
            locate_words(words, text)
        except ValueError:
            text = " ".join(words) if spaced else "".join(words)
        sentences.append((text, words, tags))
    return sentences


def retokenize(sentence: Sentence, model: Elmo, *, marks_words: bool) -> tuple[list[str], list[str]]:
    """Tokenize a text; each token gets the tag of the word with which it overlaps most."""
    text, words, tags = sentence
    offsets = locate_words(words, text)
    new_words, new_tags, before = [], [], -1
    for token in model.tokenize(text):
        shared = [min(token.end, end) - max(token.start, start) for start, end in offsets]
        number = int(np.argmax(shared))
        tag = tags[number]
        if marks_words:
            tag = f"{'I' if number == before else 'B'}-{tag}"
        elif number == before and tag.startswith("B-"):
            tag = f"I-{tag[2:]}"
        new_words.append(token.text)
        new_tags.append(tag)
        before = number
    return new_words, new_tags


def make_examples(recipe: Recipe, data: Path, model: Elmo) -> dict[str, list[dict[str, Any]]]:
    """Return the examples of each split; English training data is included in both tokenizations."""
    is_english = recipe.model == "en-small"
    examples: dict[str, list[dict[str, Any]]] = {}
    for split in SPLITS:
        rows = []
        for sentence in read_sentences(data / recipe.files.format(split), recipe.columns, spaced=is_english):
            words, tags = retokenize(sentence, model, marks_words=recipe.joins_words)
            if is_english:
                rows.append({"words": sentence[1], "tags": sentence[2]})
            if not is_english or (split == "train" and words != sentence[1]):
                rows.append({"words": words, "tags": tags})
        examples[split] = rows
    return examples


def to_tagger(folder: Path, name: str, recipe: Recipe, model: Elmo) -> Tagger:
    """Return the tagger of a trained task."""
    task = tasks.load(folder)
    labels, stored = task.description.labels, load_file(folder / "weights.safetensors")
    tags = labels["tags"]
    (mix,) = json.loads((folder / "scores.json").read_text())["mixes"]
    weights = {
        "mix": np.array(mix["weights"]) * mix["gamma"],
        "scores": stored["scores.weight"].T,
        "scores_bias": stored["scores.bias"],
        "transitions": np.zeros((len(tags), len(tags))), "first": np.zeros(len(tags)), "last": np.zeros(len(tags)),
    }  # fmt: skip
    for layer in range(2):
        filters = stored[f"encoder.sequence.filters.{layer}.weight"]  # (out, in, width)
        weights[f"filters{layer}"] = filters.transpose(2, 1, 0).reshape(-1, filters.shape[0])
        weights[f"filters{layer}_bias"] = stored[f"encoder.sequence.filters.{layer}.bias"]
    if labels["crf"]:
        weights |= {key: stored[f"crf.{key}"] for key in ("transitions", "first", "last")}
    if labels["strict"]:  # an inside tag may only follow its own type
        follows = np.array([[_may_follow(previous, tag) for tag in tags] for previous in tags])
        starts = np.array([_may_follow("O", tag) for tag in tags])
        weights["transitions"] = np.where(follows, weights["transitions"], -1e4)
        weights["first"] = np.where(starts, weights["first"], -1e4)
    description = {
        "format_version": 1, "model": recipe.model, "model_hash": model.checkpoint().fingerprint(), "tags": tags,
        "joins_words": recipe.joins_words, "data": recipe.data, "license": recipe.license,
    }  # fmt: skip
    rounded = {key: np.ascontiguousarray(value, dtype=np.float16) for key, value in weights.items()}
    return Tagger(name, description, {key: value.astype(np.float32) for key, value in rounded.items()}, model)


def _may_follow(previous: str, tag: str) -> bool:
    return not tag.startswith("I-") or previous[2:] == tag[2:]


def embed(model: Elmo, examples: list[dict[str, Any]]) -> list[Any]:
    """Return the layers of each sentence."""
    return model.embed([row["words"] for row in examples], layers="all")


def measure(tagger: Tagger, examples: list[dict[str, Any]], layers: list[Any]) -> dict[str, float]:
    """Return F1 of spans or accuracy of words; for joined words, F1 of words with their tags."""
    gold = [example["tags"] for example in examples]
    predicted = [tagger.tag_layers(array) for array in layers]
    if any(tag.startswith("B-") for tag in tagger.description["tags"]):
        return score_spans(gold, predicted)
    flat = ([tag for row in rows for tag in row] for rows in (gold, predicted))
    return {"accuracy": score_labels(*flat)["accuracy"]}


def choose_bias(tagger: Tagger, examples: list[dict[str, Any]]) -> None:
    """Lower the score of O by the amount that gives the best F1 on dev."""
    outside, bias = tagger.description["tags"].index("O"), tagger.weights["scores_bias"]
    before, scores, layers = bias[outside], [], embed(tagger.elmo, examples)
    for lowered in BIASES:
        bias[outside] = before - lowered
        scores.append(measure(tagger, examples, layers)["f1"])
    bias[outside] = np.float16(before - BIASES[int(np.argmax(scores))])


def write_score(name: str, score: float) -> None:
    """Write the test score of a tagger into its row of docs/tasks.md and docs/tasks.zh.md."""
    for page in ("tasks.md", "tasks.zh.md"):
        path = Path(__file__).parents[2] / "docs" / page
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub(rf"(\| `{name}` \|.*) \d+\.\d \|", rf"\g<1> {score:.1f} |", text), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--only", choices=RECIPES, action="append", help="train only this tagger; may be repeated")
    parser.add_argument("--output", type=Path, default=TAGGERS_FOLDER, help="output folder")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    for name in arguments.only or RECIPES:
        recipe = RECIPES[name]
        model = Elmo.from_pretrained(recipe.model)
        examples = make_examples(recipe, arguments.data, model)
        settings = {
            "words.kinds": [], "network.kind": "cnn", "network.num_layers": 2, "network.width": 3,
            "network.dim": 128, "fit.num_epochs": recipe.num_epochs, "fit.linear_decay": True,
            "fit.batch_size": 32 if name.endswith("entities") else 64,
            "network.crf": "no" if recipe.joins_words else "auto",  # too slow with 30 tags and long sentences
        }  # fmt: skip
        folder = Path(tempfile.mkdtemp()) / name
        tasks.train(
            examples["train"], dev=examples["dev"], kind="tagging", model=recipe.model, output=folder,
            settings=settings, show_progress_bar=True,
        )  # fmt: skip
        tagger = to_tagger(folder, name, recipe, model)
        if "O" in tagger.description["tags"]:
            choose_bias(tagger, examples["dev"])
        scores = measure(tagger, examples["test"], embed(model, examples["test"]))
        tagger.description["scores"] = {key: round(value, 1) for key, value in scores.items()}
        path = arguments.output / f"{name}.safetensors"
        weights = {key: value.astype(np.float16) for key, value in tagger.weights.items()}
        save_file(weights, path, metadata={"tagger": json.dumps(tagger.description, ensure_ascii=False)})
        path.chmod(0o644)
        shutil.rmtree(folder.parent)
        if arguments.output == TAGGERS_FOLDER:
            write_score(name, next(iter(scores.values())))
        print(f"{name}: {tagger.description['scores']}, {path.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
