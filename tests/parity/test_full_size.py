"""The largest official model with random weights: its size, its vectors, and the same in any batch."""

import numpy as np
import pytest
import torch

from elmo import Elmo
from elmo.config import CharacterConfig, EncoderConfig, ModelConfig
from elmo.nn.build import build_bilm
from tests.checkpoint.bilm_files import NumpyBilm, make_options, make_variables, write_model

OFFICIAL_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


@pytest.mark.parametrize(
    ("cell_dim", "output_dim", "num_highways", "millions"),
    [(1024, 128, 1, 13.6), (2048, 256, 1, 28.0), (4096, 512, 2, 93.6)],
    ids=["small", "medium", "original"],
)
def test_the_official_sizes_have_the_published_number_of_parameters(cell_dim, output_dim, num_highways, millions):
    config = ModelConfig(
        encoder=EncoderConfig(cell_dim=cell_dim, output_dim=output_dim),
        characters=CharacterConfig(num_highways=num_highways),
    )
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in build_bilm(config).parameters())
    assert count / 1e6 == pytest.approx(millions, abs=0.05)


@pytest.mark.slow
def test_the_full_size_model_gives_the_vectors_of_the_description_in_any_batch(tmp_path):
    options = make_options(dim=4096, projection=512, filters=OFFICIAL_FILTERS, clips=(3, 3))
    options["char_cnn"]["embedding"]["dim"] = 16
    variables = make_variables(options, scale=0.03)
    model = Elmo.from_pretrained(write_model(tmp_path, options, variables))
    words = ["The", "bank", "raised", "interest", "rates", "日本語", "."]
    (alone,) = model.embed([words], layers="all")
    np.testing.assert_allclose(alone, NumpyBilm(options, variables).embed(words), atol=1e-4)
    neighbors = [["word"] * 40, ["x"], ["another", "sentence"] * 8]
    (*_, beside) = model.embed([*neighbors, words], layers="all")
    np.testing.assert_allclose(alone, beside, atol=1e-5)
