"""A movie-review classifier, ELMo + LSTM, as one short PyTorch program.

    python examples/movie_reviews.py reviews.csv            # columns text and label
    python examples/movie_reviews.py reviews.csv --model my-model --say "A film to remember."

`elmo.tasks.train("reviews.csv", kind="sentiment", output="reviews")` does the same with early stopping, layers
cached on disk, resume and scores; this file shows what is inside.
"""

import argparse
import csv
import random

import torch
from torch import nn

from elmo import Elmo, ElmoLayer


class ReviewClassifier(nn.Module):
    def __init__(self, model: Elmo, num_labels: int) -> None:
        super().__init__()
        self.elmo = ElmoLayer(model, dropout=0.5)  # frozen: only s_j and γ are learned
        self.lstm = nn.LSTM(self.elmo.output_dim, 64, batch_first=True, bidirectional=True)
        self.scores = nn.Linear(128, num_labels)

    def forward(self, texts: list[str]) -> torch.Tensor:
        words = self.elmo(texts)
        states, _ = self.lstm(words.mixes[0])
        return self.scores(states.masked_fill(~words.mask[..., None], -1e9).amax(dim=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reviews")
    parser.add_argument("--model", help="without it, the default model")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--say", default="A film to remember.")
    arguments = parser.parse_args()

    with open(arguments.reviews, encoding="utf-8", newline="") as file:  # noqa: PTH123
        rows = [(row["text"], row["label"]) for row in csv.DictReader(file)]
    labels = sorted({label for _, label in rows})
    random.Random(0).shuffle(rows)

    torch.manual_seed(0)
    network = ReviewClassifier(Elmo.from_pretrained(arguments.model), len(labels))
    optimizer = torch.optim.Adam([each for each in network.parameters() if each.requires_grad], lr=1e-3)
    for epoch in range(1, arguments.epochs + 1):
        total = 0.0
        for start in range(0, len(rows), 32):
            texts, gold = zip(*rows[start : start + 32], strict=True)
            targets = torch.tensor([labels.index(label) for label in gold])
            loss = nn.functional.cross_entropy(network(list(texts)), targets) + network.elmo.mix_penalty(0.001)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(texts)
        print(f"epoch {epoch}: loss {total / len(rows):.3f}")

    network.eval()
    with torch.no_grad():
        print(f"{arguments.say!r} is {labels[int(network([arguments.say]).argmax())]}")


if __name__ == "__main__":
    main()
