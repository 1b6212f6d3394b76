"""Train the last linear map of a model's sentence head, with the network frozen.

    python recipes/en-small/refit_head.py MODEL SENTENCES TEACHER OUTPUT --epochs 8

SENTENCES is the prepared corpus and TEACHER the cache from which `elmo train` distilled. Averaging two models
changes the layers slightly, and this script fits the head to the averaged layers with the training loss: 1 - cosine
with the teacher's vectors, the KL divergence of the similarities in a batch, and a margin between a sentence and
its contrast (another word order, or a negation).
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from elmo import Elmo
from elmo.checkpoint.folder import write_folder
from elmo.checkpoint.open import open_checkpoint
from elmo.corpus.prepared import PreparedCorpus
from elmo.pretrain.distillation import ContrastFinder, StaticTable, build_head

TEMPERATURE, GROUP, BATCH = 0.05, 4, 512
MARGIN, CONTRAST = 0.8, 2.0
NEGATIONS = ("not", "n't", "'t", "never", "no")
LEARNING_RATE = 5e-4
AT_ONCE = 1024


def main() -> None:
    """Write the model with the new head."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("model", "sentences", "teacher", "output"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--epochs", type=int, default=8)
    options = parser.parse_args()
    checkpoint = open_checkpoint(options.model)
    assert checkpoint.sentence is not None
    answers = torch.from_numpy(np.load(options.teacher / "sentences.npy"))
    features = compute_features(options, checkpoint, len(answers))
    contrasts = find_contrasts(options, len(answers))
    arrays = checkpoint.sentence.arrays
    weight = torch.nn.Parameter(torch.from_numpy(np.array(arrays["projection"])))
    bias = torch.nn.Parameter(torch.from_numpy(np.array(arrays["bias"])))
    optimizer = torch.optim.Adam([weight, bias], lr=LEARNING_RATE, betas=(0.9, 0.99))
    num_groups = len(answers) // GROUP
    per_epoch = num_groups // (BATCH // GROUP)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.02, total_iters=options.epochs * per_epoch)
    others = ~torch.eye(BATCH, dtype=torch.bool)
    torch.manual_seed(0)
    for epoch in range(options.epochs):
        order = torch.randperm(num_groups)
        total = 0.0
        for step in range(per_epoch):
            groups = order[step * BATCH // GROUP : (step + 1) * BATCH // GROUP]
            rows = (groups[:, None] * GROUP + torch.arange(GROUP)).flatten()
            vectors = F.normalize(F.linear(features[rows].float(), weight, bias), dim=1)
            expected = answers[rows].float()
            cosines = (vectors * expected).sum(dim=1)
            loss = (1 - cosines).mean() + F.kl_div(
                shares(vectors, others), shares(expected, others), reduction="batchmean", log_target=True
            )
            positions = {row: position for position, row in enumerate(rows.tolist())}
            pairs = [(positions[a], positions[b]) for group in groups.tolist() for a, b in contrasts.get(group, ())]
            if pairs:
                first, second = vectors[torch.tensor(pairs)].unbind(dim=1)
                loss = loss + CONTRAST * torch.relu((first * second).sum(dim=1) - MARGIN).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += float(cosines.detach().mean())
        print(f"epoch {epoch + 1}: mean cosine with the teacher {total / per_epoch:.4f}", flush=True)
    trained = {**arrays, "projection": weight.detach().numpy(), "bias": bias.detach().numpy()}
    component = replace(checkpoint.sentence, arrays=trained)
    write_folder(replace(checkpoint, sentence=component), options.output, storage=checkpoint.storage)


def find_contrasts(options: argparse.Namespace, num_sentences: int) -> dict[int, list[tuple[int, int]]]:
    """Return the rows of contrasting sentences by group."""
    finder = ContrastFinder(PreparedCorpus.open(options.sentences), NEGATIONS)
    ids, offsets = np.load(options.teacher / "ids.npy", mmap_mode="r"), np.load(options.teacher / "offsets.npy")
    contrasts = {}
    for start in range(0, num_sentences - GROUP + 1, GROUP):
        rows = range(start, start + GROUP)
        pairs = finder.find([ids[offsets[row] : offsets[row + 1]].astype(np.int64) for row in rows]).tolist()
        if pairs:
            contrasts[start // GROUP] = [(start + first, start + second) for first, second in pairs]
    return contrasts


def compute_features(options: argparse.Namespace, checkpoint: object, num_sentences: int) -> Tensor:
    """Return the inputs of the head's last map for all sentences, in float16."""
    model, corpus = Elmo.from_pretrained(str(options.model)), PreparedCorpus.open(options.sentences)
    static = StaticTable(checkpoint)  # type: ignore[arg-type]
    config = model.config
    head = build_head(
        checkpoint,  # type: ignore[arg-type]
        num_layers=config.encoder.num_layers + 1,
        input_dim=config.vector_dim,
        static_dim=static.dim,
        output_dim=np.load(options.teacher / "sentences.npy", mmap_mode="r").shape[1],
    )
    ids, offsets = np.load(options.teacher / "ids.npy", mmap_mode="r"), np.load(options.teacher / "offsets.npy")
    features = torch.empty(num_sentences, head.projection.shape[1], dtype=torch.float16)
    for start in range(0, num_sentences, AT_ONCE):
        rows = range(start, min(start + AT_ONCE, num_sentences))
        sentences = [corpus.words(ids[offsets[row] : offsets[row + 1]]) for row in rows]
        layers = torch.from_numpy(np.concatenate(model.embed(sentences, layers="all"), axis=1))
        vectors, weights = static.look_up_words([word for words in sentences for word in words])
        with torch.no_grad():
            pooled = head.features(layers, vectors, weights, torch.tensor([len(words) for words in sentences]))
        features[start : start + len(rows)] = pooled.half()
    return features


def shares(vectors: Tensor, others: Tensor) -> Tensor:
    """Return the log softmax of the similarities of each sentence to the others of a batch."""
    return (vectors @ vectors.t() / TEMPERATURE).masked_fill(~others, -1e9).log_softmax(dim=1)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
