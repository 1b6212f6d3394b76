"""Train two movie-review classifiers and compare them with TF-IDF and logistic regression.

    python examples/movie_reviews.py reviews.csv            # columns text and label
    python examples/movie_reviews.py reviews.csv --lstm --epochs 5 --model my-model --say "A film to remember."

`tasks.train` chooses a classifier that suits the data: for long reviews, a linear one on pooled ELMo vectors and
TF-IDF. --lstm also trains a classic ELMo + LSTM classifier, implemented below; it suits single sentences and
thousands of examples.
"""

import argparse
import csv
import random
import tempfile
from pathlib import Path

import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from torch import nn

from elmo import Elmo, ElmoLayer, tasks

Reviews = tuple[list[str], list[str]]


class ReviewClassifier(nn.Module):
    def __init__(self, model: Elmo, num_labels: int) -> None:
        super().__init__()
        self.elmo = ElmoLayer(model, dropout=0.5)  # frozen: only s_j and γ are trained
        self.lstm = nn.LSTM(self.elmo.output_dim, 64, batch_first=True, bidirectional=True)
        self.scores = nn.Linear(128, num_labels)

    def forward(self, texts: list[str]) -> torch.Tensor:
        words = self.elmo(texts)
        states, _ = self.lstm(words.mixes[0])
        return self.scores(states.masked_fill(~words.mask[..., None], -1e9).amax(dim=1))


def train_lstm(train: Reviews, labels: list[str], model: Elmo, num_epochs: int) -> ReviewClassifier:
    torch.manual_seed(0)
    network = ReviewClassifier(model, len(labels))
    optimizer = torch.optim.Adam([weight for weight in network.parameters() if weight.requires_grad], lr=1e-3)
    texts, gold = train
    for epoch in range(1, num_epochs + 1):
        total = 0.0
        for start in range(0, len(texts), 32):
            targets = torch.tensor([labels.index(label) for label in gold[start : start + 32]])
            loss = nn.functional.cross_entropy(network(texts[start : start + 32]), targets)
            loss = loss + network.elmo.mix_penalty(0.001)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(targets)
        print(f"epoch {epoch}: loss {total / len(texts):.3f}")
    return network.eval()


def accuracy(gold: list[str], predicted: list[str]) -> float:
    return 100 * sum(label == guess for label, guess in zip(gold, predicted, strict=True)) / len(gold)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reviews")
    parser.add_argument("--model", help="default: en-small")
    parser.add_argument("--lstm", action="store_true", help="also train ELMo + LSTM")
    parser.add_argument("--epochs", type=int, default=5, help="epochs of --lstm")
    parser.add_argument("--say", default="A film to remember.")
    arguments = parser.parse_args()

    with open(arguments.reviews, encoding="utf-8", newline="") as file:  # noqa: PTH123
        rows = [(row["text"], row["label"]) for row in csv.DictReader(file)]
    random.Random(0).shuffle(rows)
    num_train = len(rows) * 3 // 4
    train, test = (
        ([text for text, _ in split], [label for _, label in split]) for split in (rows[:num_train], rows[num_train:])
    )
    labels = sorted(set(train[1]))

    tfidf = make_pipeline(TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2)), LogisticRegression(C=10))
    print(f"TF-IDF, logistic regression: {accuracy(test[1], tfidf.fit(*train).predict(test[0]).tolist()):.1f}")

    if arguments.lstm:
        network = train_lstm(train, labels, Elmo.from_pretrained(arguments.model), arguments.epochs)
        with torch.no_grad():
            guesses = [labels[int(network([text]).argmax())] for text in test[0]]
        print(f"ELMo + LSTM: {accuracy(test[1], guesses):.1f}")

    with tempfile.TemporaryDirectory() as folder:
        options = tasks.TaskOptions(precision="auto")
        output = Path(folder) / "reviews"
        result = tasks.train(train, test=test, kind="sentiment", model=arguments.model, options=options, output=output)
        print(f"elmo.tasks ({result.settings['network']['kind']}): {result.test['accuracy']:.1f}")
        (prediction,) = result.load().predict([arguments.say])
    print(f"{arguments.say!r} is {prediction.label}")


if __name__ == "__main__":
    main()
