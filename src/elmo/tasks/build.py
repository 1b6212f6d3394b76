"""Settings and what was learned of the data -> a task network; the only place where one becomes the other."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from elmo.layer import ElmoLayer, LayerMixes
from elmo.model import Elmo
from elmo.tasks.families.family import Labels, choose_family
from elmo.tasks.networks.encoder import Batcher, Encoder, LayersOf
from elmo.tasks.settings import TaskSettings
from elmo.tasks.word_vectors import FIRST_WORD, WordInput, WordList


@dataclass(frozen=True)
class Vocabularies:
    """The words with learned and with pretrained vectors; `pretrained_dim` is 0 if there are none."""

    learned: WordList
    pretrained: WordList
    pretrained_dim: int


@dataclass(frozen=True)
class BilmShape:
    """How many layers of which size a biLM gives."""

    num_layers: int
    dim: int


def build_network(
    family: str,
    settings: TaskSettings,
    labels: Labels,
    words: Vocabularies,
    bilm: BilmShape | None,
    *,
    tuned: Elmo | None = None,
    vectors: npt.NDArray[np.float32] | None = None,
) -> torch.nn.Module:
    """Make a network with random weights; `tuned` is the model to be trained along, `vectors` the pretrained ones.

    Without `vectors` the pretrained rows are zeros, to be loaded.
    """
    pretrained = None
    if words.pretrained_dim:
        shape = (len(words.pretrained), words.pretrained_dim)
        pretrained = torch.zeros(shape) if vectors is None else torch.from_numpy(vectors)
    num_learned = len(words.learned) if len(words.learned) > FIRST_WORD else 0

    def make_encoder(extra_dim: int) -> Encoder:
        inputs = WordInput(settings.words, num_learned=num_learned, pretrained=pretrained)
        return Encoder(inputs, _make_elmo(settings, bilm, tuned), settings, extra_dim=extra_dim)

    return choose_family(family).build(make_encoder, labels, settings)


def make_batcher(settings: TaskSettings, words: Vocabularies, layers_of: LayersOf | None) -> Batcher:
    """Make what turns sentences into what the network reads."""
    is_frozen = settings.elmo.where != "none" and not settings.elmo.tune
    return Batcher(
        words.learned,
        words.pretrained,
        with_characters="characters" in settings.words.kinds,
        layers_of=layers_of if is_frozen else None,
    )


def _make_elmo(
    settings: TaskSettings, bilm: BilmShape | None, tuned: Elmo | None
) -> LayerMixes | ElmoLayer | None:
    elmo = settings.elmo
    if elmo.where == "none":
        return None
    num_mixes = 2 if elmo.where == "both" else 1
    if elmo.tune:
        assert tuned is not None
        return ElmoLayer(tuned, num_mixes=num_mixes, dropout=elmo.dropout, layers=elmo.layers, tune_bilm=True)
    assert bilm is not None
    return LayerMixes(bilm.num_layers, bilm.dim, num_mixes=num_mixes, dropout=elmo.dropout, layers=elmo.layers)
