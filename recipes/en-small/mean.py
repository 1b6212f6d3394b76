"""Write the weighted mean of two models of one run, with the context layer and the sentence head of the first.

    python recipes/en-small/mean.py MODEL OTHER SHARE CORPUS OUTPUT

SHARE is the weight of MODEL. `elmo.checkpoint.average` drops both components because the layers they were fitted to
change. Here the head still fits (STS-B dev 79.8 instead of 79.4), the static vectors do not depend on the layers, and
what the context layer estimates from layer 0 is estimated again. CORPUS is a prepared corpus.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from elmo import Elmo
from elmo.checkpoint.derived import average
from elmo.checkpoint.folder import write_folder
from elmo.checkpoint.open import open_checkpoint
from elmo.corpus.prepared import PreparedCorpus
from elmo.fusion.fuse import find_common_directions, fit_map

name, other, share, corpus, output = sys.argv[1:6]
first = open_checkpoint(name)
layer = first.context
assert layer is not None
mean = average([first, open_checkpoint(other)], [float(share), 1 - float(share)])
mean = replace(mean, context=layer, sentence=first.sentence)
model = Elmo(mean, precision="float32")
word_vectors = model.word_vectors(list(layer.words))
static = layer.arrays["vectors"] * np.asarray(layer.arrays["scales"], dtype=np.float32)[:, None]
unknown_map, unknown_bias = fit_map(word_vectors, static)
estimates = {"unknown_map": unknown_map, "unknown_bias": unknown_bias, "word_mean": word_vectors.mean(axis=0)}
layer = replace(layer, arrays={**layer.arrays, **estimates})
layer = find_common_directions(model, layer, PreparedCorpus.open(corpus), seed=0)
write_folder(replace(mean, context=layer), Path(output), storage="compact")
