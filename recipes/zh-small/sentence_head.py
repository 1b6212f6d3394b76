"""Add a sentence head to a model with a context layer, in closed form.

    python recipes/zh-small/sentence_head.py MODEL CORPUS OUTPUT [--teacher FOLDER]

Three pooled features are whitened on sentences of a prepared corpus and concatenated: the sum of static vectors, the
mean of a mix of layers in which rare tokens get slightly more weight, and its maximum. One more dimension indicates
negation, by ridge regression on the same features, because sums with small weights for frequent tokens are hardly
sensitive to 不. With --teacher, the output of glosses.py, vectors that a ridge regression predicts from the features
are concatenated: those of an English teacher. The weights of the parts were chosen on the dev set of STS-B zh.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from elmo import Elmo
from elmo.checkpoint.components import SentenceHead as SentenceComponent
from elmo.checkpoint.folder import write_folder
from elmo.config import SentenceConfig
from elmo.corpus.prepared import BOS_ID, PreparedCorpus
from elmo.nn.sentence_head import SentenceHead
from elmo.pretrain.distillation import Regression, StaticTable

NEGATIONS = set("不没未非无")
NUM_SENTENCES, SHORTEST, LONGEST = 9000, 6, 27  # drawn from the corpus; tokens
LAYERS = (1.5, -3.0, 0.5)  # logits of the mix: layer 0, and some of the top layer for word order
RARITY = (0.5,)  # exponent of the tokens' weights in the mean
PART_DIM, MAXIMUM_POWER, NEGATION = 256, 0.7, 1.5
TEACHER = 1.0  # length of the predicted vectors relative to the whitened ones
NUM_TEACHER_SENTENCES, SENTENCES_AT_ONCE = 160_000, 1024


def main() -> None:
    """Write the model with the head."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("corpus", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--teacher", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    model = Elmo.from_pretrained(options.model)
    checkpoint = model.checkpoint()
    sentences = draw(PreparedCorpus.open(options.corpus))
    head = fit(model, sentences)
    if options.teacher is not None:
        head = add_teacher(model, head, options.teacher, sentences)
    arrays = {name: tensor.detach().numpy() for name, tensor in head.state_dict().items()}
    component = SentenceComponent(SentenceConfig(len(arrays["bias"]), len(RARITY)), arrays)
    write_folder(replace(checkpoint, sentence=component), options.output, storage=checkpoint.storage)


def draw(corpus: PreparedCorpus) -> list[list[str]]:
    """Return random pieces of sentences."""
    rng, blocks = np.random.default_rng(1), corpus.blocks()
    pieces: list[list[str]] = []
    while len(pieces) < NUM_SENTENCES:
        shard, start, stop = (int(number) for number in blocks[rng.integers(len(blocks))])
        ids = corpus.read_block(shard, start, stop)
        bounds = np.append(np.flatnonzero(ids == BOS_ID), len(ids))
        for _ in range(3):
            index = int(rng.integers(len(bounds) - 1))
            sentence = ids[bounds[index] + 1 : bounds[index + 1]]
            if len(sentence) >= SHORTEST:
                size = int(rng.integers(SHORTEST, LONGEST + 1))
                first = int(rng.integers(max(1, len(sentence) - size + 1)))
                pieces.append(corpus.words(sentence[first : first + size]))
    return pieces


@torch.no_grad()
def fit(model: Elmo, sentences: list[list[str]]) -> SentenceHead:
    """Return a head whose features are whitened on the given sentences."""
    table, input_dim = StaticTable(model.checkpoint()), model.config.vector_dim
    head = SentenceHead(
        num_layers=len(LAYERS),
        input_dim=input_dim,
        static_dim=table.dim,
        output_dim=3 * PART_DIM + 1,
        num_heads=len(RARITY),
    )
    head.layer_weights.copy_(torch.tensor(LAYERS))
    head.rarity.copy_(torch.tensor(RARITY))
    head.queries.zero_()
    features = compute_features(model, head, sentences)
    mean = features.mean(dim=0)
    centered = (features - mean).double()
    maximum = len(RARITY) * input_dim
    parts = [
        (slice(maximum + input_dim, None), 1.0),
        (slice(0, input_dim), 1.0),
        (slice(maximum, maximum + input_dim), MAXIMUM_POWER),
    ]
    projection = torch.zeros_like(head.projection)
    for number, (span, power) in enumerate(parts):
        rows = slice(number * PART_DIM, (number + 1) * PART_DIM)
        projection[rows, span] = whiten(centered[:, span], power).float()
    is_negated = torch.tensor([float(not NEGATIONS.isdisjoint(words)) for words in sentences], dtype=torch.float64)
    products = centered.t() @ centered
    ridge = 1e-3 * products.diagonal().mean() * torch.eye(len(products), dtype=torch.float64)
    negation = torch.linalg.solve(products + ridge, centered.t() @ (is_negated - is_negated.mean()))
    projection[-1] = NEGATION * negation.float()
    head.projection.copy_(projection)
    head.bias.copy_(-(projection @ mean))
    return head


@torch.no_grad()
def add_teacher(model: Elmo, head: SentenceHead, folder: Path, sentences: list[list[str]]) -> SentenceHead:
    """Return a head that also predicts the teacher's vectors; `sentences` determine their scale."""
    lines = (folder / "sentences.txt").read_text(encoding="utf-8").splitlines()
    vectors = np.load(folder / "vectors.npy")
    chosen = np.random.default_rng(1).permutation(len(lines))[:NUM_TEACHER_SENTENCES]
    own = compute_features(model, head, sentences)
    mean, spread = own.mean(dim=0), own.std(dim=0) + 1e-3
    regression = Regression()
    for start in range(0, len(chosen), SENTENCES_AT_ONCE):
        rows = chosen[start : start + SENTENCES_AT_ONCE]
        words = [[token.text for token in model.tokenize(lines[row])] for row in rows]
        scaled = (compute_features(model, head, words) - mean) / spread
        regression.add(scaled, torch.from_numpy(vectors[rows]))
    weight, bias = torch.empty(vectors.shape[1], own.shape[1]), torch.empty(vectors.shape[1])
    regression.solve(weight, bias)
    weight /= spread
    bias -= weight @ mean
    whitened = own @ head.projection.t() + head.bias
    length = TEACHER * whitened.norm(dim=1).mean() / (own @ weight.t() + bias).norm(dim=1).mean()
    head.projection = torch.nn.Parameter(torch.cat([head.projection, length * weight]))
    head.bias = torch.nn.Parameter(torch.cat([head.bias, length * bias]))
    return head


@torch.no_grad()
def compute_features(model: Elmo, head: SentenceHead, sentences: list[list[str]]) -> Tensor:
    """Return the inputs of the head's linear map."""
    layers = torch.from_numpy(np.concatenate(model.embed(sentences, layers="all"), axis=1))
    static, weights = StaticTable(model.checkpoint()).look_up_words([word for words in sentences for word in words])
    return head.features(layers, static, weights, torch.tensor([len(words) for words in sentences]))


def whiten(centered: Tensor, power: float) -> Tensor:
    """Return the map (PART_DIM, F) to principal components of equal variance (power 1) and mean length 1."""
    values, directions = torch.linalg.eigh(centered.t() @ centered / len(centered))
    values, directions = values.flip(0)[:PART_DIM], directions.flip(1)[:, :PART_DIM]
    scaled = directions * (values + 1e-7) ** (-power / 2)
    return (scaled / (centered @ scaled).norm(dim=1).mean()).t()


if __name__ == "__main__":
    main()
