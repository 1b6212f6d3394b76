"""Write the weighted mean of two models of one run, with the context layer and the sentence head of the first.

    python recipes/en-small/mean.py MODEL OTHER SHARE CORPUS OUTPUT

SHARE is the weight of MODEL. The models must have a common ancestor: weights that were initialized independently have
nothing in common. The layers change, but the head still fits (STS-B dev 79.8 instead of 79.4), the static vectors do
not depend on the layers, and what the context layer estimates from layer 0 is estimated again. CORPUS is a prepared
corpus.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from elmo import Elmo
from elmo.checkpoint.folder import derived_card, write_folder
from elmo.checkpoint.open import open_checkpoint
from elmo.corpus.prepared import PreparedCorpus
from elmo.fusion.fuse import find_common_directions, fit_map

first, second = map(open_checkpoint, sys.argv[1:3])
share = float(sys.argv[3])
corpus, output = sys.argv[4:6]
layer = first.context
assert layer is not None
assert (first.config, first.vocabulary) == (second.config, second.vocabulary)
weights = {
    name: (share * weight.astype(np.float64) + (1 - share) * second.weights[name].astype(np.float64)).astype(np.float32)
    for name, weight in first.weights.items()
}
card = derived_card(first.card, "averaging, which mixed its weights")
mean = replace(first, weights=weights, card=card)
model = Elmo(mean, precision="float32")
word_vectors = model.word_vectors(list(layer.words))
static = layer.arrays["vectors"] * np.asarray(layer.arrays["scales"], dtype=np.float32)[:, None]
unknown_map, unknown_bias = fit_map(word_vectors, static)
estimates = {"unknown_map": unknown_map, "unknown_bias": unknown_bias, "word_mean": word_vectors.mean(axis=0)}
layer = replace(layer, arrays={**layer.arrays, **estimates})
layer = find_common_directions(model, layer, PreparedCorpus.open(corpus), seed=0)
write_folder(replace(mean, context=layer), Path(output), storage="compact")
