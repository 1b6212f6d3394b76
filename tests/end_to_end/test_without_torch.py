"""Opening a model and computing vectors imports no torch; errors name what needs it."""

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["torch"] = None  # any import of it fails
import numpy as np
from elmo import Elmo
from elmo.errors import ConfigError
for name in ("en-small", "zh-small"):
    model = Elmo.from_pretrained(name)
    assert model.embed("I went to the bank", layers="all").shape[0] == 3
    assert len(model.encode(["I went", "to the bank"])) == 2
assert model.embed([]) == [] and model.encode([]).shape[0] == 0
model = Elmo.from_pretrained()
assert -1 <= model.similarity("the [bank] of a river", "a [bank] account") <= 1
assert -1 <= model.similarity("a dog", "a cat") <= 1
assert model.similarity(["a dog", "a cat", "money"]).shape == (3, 3)
assert model.score("I went home .").perplexity > 1
assert model.substitutes("I went to the [bank] .", top_k=3)
assert model.embed_spans("I went to New York", [(3, 5)]).shape[0] == 1
random = Elmo.from_config(model.config, vocabulary=model.vocabulary.words)
assert np.isfinite(random.embed("a new model")).all()
try:
    Elmo.from_pretrained(device="cuda")
except ConfigError as error:
    assert "needs torch" in str(error)
else:
    raise AssertionError("it needs torch")
print("done")
"""


def test_a_model_embeds_encodes_and_compares_without_torch():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", PROGRAM], capture_output=True, text=True)
    assert done.stdout == "done\n", done.stderr
