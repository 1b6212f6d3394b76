"""The same word in other sentences: what static vectors cannot tell apart, layer by layer and by meaning.

python examples/bank.py [MODEL]
"""

import sys
from itertools import combinations
from statistics import mean

from elmo import Elmo

WORDS = {
    "bank": {
        "money": (
            "I went to the [bank] to deposit money",
            "I deposited cash in the [bank]",
            "The [bank] raised interest rates",
        ),
        "river": ("I sat by the [bank] of the river", "We had a picnic by the river [bank]"),
    },
    "apple": {
        "company": (
            "[Apple] released a new phone and its shares rose",
            "[Apple] computers were sold in every city",
            "[Apple] shares and those of other companies were sold for cash",
        ),
        "fruit": (
            "[Apple] trees were in bloom all over the orchard",
            "[Apple] pie was baking in the oven",
            "[Apple] juice and bread were all they had for breakfast",
        ),
    },
    "Washington": {
        "person": (
            "[Washington] commanded the army and became the first president",
            "General [Washington] crossed the river with his soldiers",
        ),
        "city": (
            "The embassy in [Washington] was closed on Monday",
            "He took the train from New York to [Washington]",
        ),
        "state": (
            "Seattle is the largest city in [Washington]",
            "They moved from Oregon to eastern [Washington]",
        ),
    },
}


def main() -> None:
    model = Elmo.from_pretrained(sys.argv[1] if len(sys.argv) > 1 else None)
    layers = [*range(model.num_layers), "average", *(["meaning"] if model.context else [])]
    for word, senses in WORDS.items():
        print(f"\n{word}")
        for sense, sentences in senses.items():
            for sentence in sentences:
                print(f"  {sense:8}{sentence}")
        print(
            f"\n  {'mean cosine':24}{'same sense':>12}{'other sense':>13}{'difference':>12}{'nearest right':>15}"
        )
        for layer in layers:
            same, other, right = compare(model, senses, layer)
            names = {0: "layer 0, no sentence", "average": "average of the layers", "meaning": "meaning"}
            name = names.get(layer, f"layer {layer}")
            print(f"  {name:24}{same:12.3f}{other:13.3f}{same - other:12.3f}{right:>15}")


def compare(model: Elmo, senses: dict[str, tuple[str, ...]], layer: int | str) -> tuple[float, float, str]:
    """Give the mean cosine within senses and across, and how many sentences are nearest to their own sense."""
    places = [(sense, sentence) for sense, sentences in senses.items() for sentence in sentences]
    cosines = {
        (one, other): model.similarity(one[1], other[1], layers=layer) for one, other in combinations(places, 2)
    }
    cosines |= {(other, one): cosine for (one, other), cosine in cosines.items()}
    same = mean(cosine for (one, other), cosine in cosines.items() if one[0] == other[0])
    different = mean(cosine for (one, other), cosine in cosines.items() if one[0] != other[0])
    num_right = 0
    for place in places:
        best = {
            is_same: max(
                cosines[place, other] for other in places if other != place and (other[0] == place[0]) == is_same
            )
            for is_same in (True, False)
        }
        num_right += best[True] > best[False] + 1e-6
    return same, different, f"{num_right} of {len(places)}"


if __name__ == "__main__":
    main()
