"""Sentence vectors without a teacher: copies become close, and the model gets a sentence head."""

import numpy as np

from elmo.checkpoint.open import open_checkpoint
from elmo.pretrain.launch import start_run
from elmo.pretrain.metrics import read_metrics
from elmo.pretrain.run import Watcher


def test_a_sentence_is_found_by_its_copy(corpus_folder, validation_file, tmp_path, tiny_settings):
    settings = tiny_settings(
        max_updates=80,
        validate_every=80,
        checkpoint_every=80,
        contrastive={"dim": 16, "batch_sentences": 32, "negations": ["a"], "max_words": 12, "weight": 3.0},
        **{"optimizer.kind": "adamw", "optimizer.learning_rate": 0.01},
    )
    start_run(tmp_path / "run", corpus_folder, settings, validation=(str(validation_file),)).train(Watcher())
    accuracy = [line["contrastive_accuracy"] for line in read_metrics(tmp_path / "run") if line["kind"] == "train"]
    assert np.mean(accuracy[-10:]) > np.mean(accuracy[:10])
    head = open_checkpoint(str(tmp_path / "run")).sentence
    assert head is not None and head.config.dim == 16
