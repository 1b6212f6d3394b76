"""Draw the pictures of the README and of docs/ with a model, by default the included one.

python docs/pictures/draw.py [--model MODEL] [--corpus FOLDER]

senses.png, senses-zh.png (with the model zh-small) and similarity.png need nothing else. play.png is drawn from
wikipedia_en.valid.txt and books_en.valid.txt of --corpus. inference.png is drawn by benchmarks/inference.py --plot;
en-small-training.png and learning-curve.png show a run and a comparison of an earlier version.
"""

import argparse
import json
import os
from importlib.resources import files
from pathlib import Path

from elmo import Elmo, analysis

HERE = Path(__file__).parent
SIMILAR = ("I sat by the bank of the river", "The bank lent me some money")


def main() -> None:
    """Draw what the given inputs allow."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a folder, file, alias or hub id; by default the included model")
    parser.add_argument("--corpus", type=Path, help="folder of texts, for play.png")
    parser.add_argument("--output", type=Path, default=HERE, help="folder of the pictures")
    options = parser.parse_args()
    chinese = Elmo.from_pretrained("zh-small")
    draw_senses(chinese, "zh", "一词两义：{count} 个句子中的“{word}”，逐层比较", options.output, "-zh")
    model = Elmo.from_pretrained(options.model)
    draw_senses(model, "en", "One word, two senses: “{word}” in {count} sentences, layer by layer", options.output)
    layers = [0, "meaning" if model.context is not None else "top"]
    compared = analysis.compare_sentences(model, *SIMILAR, layers=layers)
    analysis.draw_similarity_map(compared, options.output / "similarity.png")
    drawn = ["senses.png", "senses-zh.png", "similarity.png"]
    if options.corpus is not None:
        texts = [str(options.corpus / f"{name}_en.valid.txt") for name in ("wikipedia", "books")]
        occurrences, _ = analysis.find_occurrences(texts, "play", max_occurrences=500)
        layer = "meaning" if model.context is not None else "top"
        analysis.draw_senses(analysis.map_senses(model, occurrences, layers=[layer]), options.output / "play.png")
        drawn.append("play.png")
    print(f"Drew {', '.join(drawn)} in {options.output}.")


def draw_senses(model: Elmo, language: str, title: str, folder: Path, suffix: str = "") -> None:
    """Draw the two senses of the first example of the page, "bank" or 苹果, in each layer."""
    os.environ["ELMO_LANG"] = language  # of the labels
    examples = json.loads((files("elmo.serve") / "page" / "examples.json").read_text(encoding="utf-8"))
    example = examples[language]["senses"][0]
    senses = analysis.map_senses(model, example["sentences"], num_senses=example["num_senses"])
    title = title.format(word=senses.word, count=len(senses.occurrences))
    analysis.draw_senses(senses, folder / f"senses{suffix}.png", title=title)


if __name__ == "__main__":
    main()
