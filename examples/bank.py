"""Compare a word in different sentences, by layer and with `layers="meaning"`.

python examples/bank.py [MODEL]
"""

import sys

import numpy as np

from elmo import Elmo, analysis

SENTENCES = {
    "bank": """
        money   I went to the [bank] to deposit money
        money   I deposited cash in the [bank]
        money   The [bank] raised interest rates
        river   I sat by the [bank] of the river
        river   We had a picnic by the river [bank]""",
    "apple": """
        company [Apple] released a new phone and its shares rose
        company [Apple] computers were sold in every city
        company [Apple] shares and those of other companies were sold for cash
        fruit   [Apple] trees were in bloom all over the orchard
        fruit   [Apple] pie was baking in the oven
        fruit   [Apple] juice and bread were all they had for breakfast""",
    "Washington": """
        person  [Washington] commanded the army and became the first president
        person  General [Washington] crossed the river with his soldiers
        city    The embassy in [Washington] was closed on Monday
        city    He took the train from New York to [Washington]
        state   Seattle is the largest city in [Washington]
        state   They moved from Oregon to eastern [Washington]""",
}
NAMES = {0: "layer 0 (no context)", "average": "average of the layers"}


def main() -> None:
    model = Elmo.from_pretrained(sys.argv[1] if len(sys.argv) > 1 else None)
    layers = [*range(model.num_layers), "average", *(["meaning"] if model.context else [])]
    for word, lines in SENTENCES.items():
        senses, sentences = zip(*(line.split(maxsplit=1) for line in lines.strip().splitlines()), strict=True)
        print(f"\n{word}")
        for sense, sentence in zip(senses, sentences, strict=True):
            print(f"  {sense:8}{sentence}")
        heads = f"{'same sense':>12}{'other sense':>13}{'difference':>12}{'nearest match':>15}"
        print(f"\n  {'mean cosine':24}{heads}")
        is_same = np.equal.outer(np.array(senses), np.array(senses))
        is_other_sentence = ~np.eye(len(senses), dtype=bool)
        for layer in layers:
            cosines = analysis.compare_words(model, sentences, layers=layer).cosines
            same, other = cosines[is_same & is_other_sentence].mean(), cosines[~is_same].mean()
            nearest_same = np.where(is_same & is_other_sentence, cosines, -1).max(axis=1)
            num_matches = (nearest_same > np.where(is_same, -1, cosines).max(axis=1) + 1e-6).sum()
            matches = f"{num_matches} of {len(senses)}"
            name = NAMES.get(layer, layer if layer == "meaning" else f"layer {layer}")
            print(f"  {name:24}{same:12.3f}{other:13.3f}{round(same - other, 3) + 0.0:12.3f}{matches:>15}")


if __name__ == "__main__":
    main()
