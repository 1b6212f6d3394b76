"""A run from files to a task folder: train, measure, write. Killed, it goes on from its last epoch."""

import json
import logging
import time
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch

from elmo.checkpoint.fingerprint import fingerprint as content_hash
from elmo.errors import InputError
from elmo.files.durable import remove, replace_file
from elmo.model import Elmo
from elmo.nn.scalar_mix import ScalarMix
from elmo.tasks.build import BilmShape, Vocabularies, build_network, make_batcher
from elmo.tasks.data import draw_training
from elmo.tasks.families.family import TaskNetwork
from elmo.tasks.fit import FitState, Fitting, Watcher, warn_of_unknown
from elmo.tasks.folder import BILM_FOLDER, BilmReference, TaskDescription, write_task
from elmo.tasks.run_folder import (
    SCORES_FILE,
    STATE_FILE,
    TRAINING,
    TaskInputs,
    holding_run,
    load_state,
    save_state,
)
from elmo.tasks.settings import TaskSettings
from elmo.tasks.task import split_bilm
from elmo.tasks.word_vectors import WordList, choose_words
from elmo.tasks.workbench import Workbench

logger = logging.getLogger(__name__)


def train_task(
    bench: Workbench, settings: TaskSettings, folder: Path, *, watcher: Watcher | None = None, keep: bool = True
) -> dict[str, Any]:
    """Train in a folder that `start` made, from its last epoch on; give and write the scores.

    With `keep` the folder becomes a task to load; without it, only the scores stay.
    """
    with holding_run(folder):
        return _train(bench, settings, folder, watcher=watcher, keep=keep)


def _train(
    bench: Workbench, settings: TaskSettings, folder: Path, *, watcher: Watcher | None, keep: bool
) -> dict[str, Any]:
    started = time.monotonic()
    family, inputs = bench.family, bench.inputs
    train, dev = draw_training(bench.parts, settings.fit)
    labels = family.learn_labels(train, settings)
    if len(names := list(labels.get("labels") or [])) == 1:
        logger.warning("All training examples have the label %r; is it in the right column?", names[0])
    if inputs.sense_index is not None:
        labels["first_senses"] = bench.first_senses
    for part, what in ((dev, "dev"), (bench.parts.test, "test")):
        warn_of_unknown(family, labels, part, what)
    uses_elmo = settings.elmo.where != "none"
    tuned = bench.open_model() if settings.elmo.tune else None
    model = tuned or (bench.frozen if uses_elmo else None)
    bilm_hash = None if model is None else content_hash(model)
    words, vectors = _choose_words(bench, settings, train)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.fit.seed)
        network = build_network(
            family.name, settings, labels, words, BilmShape(model.num_layers, model.dim) if model else None,
            tuned=tuned, vectors=vectors,
        )  # fmt: skip
    layers_of = bench.store.__getitem__ if uses_elmo and tuned is None else None
    fitting = Fitting(network, family, labels, settings, make_batcher(settings, words, layers_of))
    state_path = folder / TRAINING / STATE_FILE
    if getattr(network, "is_nearest", False):
        state = fitting.absorb(train, dev)
    else:
        state = load_state(state_path) or FitState(bilm_hash=bilm_hash)
        if state.bilm_hash != bilm_hash:
            raise InputError(
                f"{inputs.model or 'The default model'} is not the biLM that the run in {folder} began with; put "
                "that one back, or start a new run."
            )
        state = fitting.run(
            train, dev, state=state, save=lambda state: save_state(state_path, state),
            watcher=watcher,
        )  # fmt: skip
    scores = {
        "family": family.name,
        "metric": family.metric(labels),
        "dev": fitting.evaluate(dev),
        "test": fitting.evaluate(bench.parts.test) if bench.parts.test else None,
        "mixes": _describe_mixes(fitting),
        "num_train": len(train),
        "best_epoch": state.best_epoch,
        "history": state.history,
        "settings": settings.to_dict(),
        "bilm_hash": bilm_hash,
        "elapsed_seconds": round(time.monotonic() - started, 1),
    }
    if keep:
        reference = (
            None if model is None else _refer(inputs, model, is_carried=inputs.carry_bilm or tuned is not None)
        )
        if reference is not None and reference.is_carried and model is not None:
            model.save_pretrained(folder / BILM_FOLDER)
        description = TaskDescription(family.name, settings, labels, bench.parts.read, reference, inputs.label_map)
        write_task(folder, description, words, split_bilm(state.best_weights))
    replace_file(folder / SCORES_FILE, json.dumps(scores, indent=1).encode())
    remove(state_path)
    return scores


def _choose_words(
    bench: Workbench, settings: TaskSettings, train: list[Any]
) -> tuple[Vocabularies, npt.NDArray[np.float32] | None]:
    learned, pretrained, vectors = WordList(()), WordList(()), None
    if "learned" in settings.words.kinds:
        texts = (text for example in train for text in bench.family.texts(example))
        learned = choose_words(texts, min_count=settings.words.min_count)
    if "pretrained" in settings.words.kinds:
        pretrained, vectors = bench.read_pretrained(settings.words.num_kept)
    return Vocabularies(learned, pretrained, 0 if vectors is None else vectors.shape[1]), vectors


def _refer(inputs: TaskInputs, model: Elmo, *, is_carried: bool) -> BilmReference:
    source = inputs.model
    if source is not None and Path(source).expanduser().exists():
        source = str(Path(source).expanduser().resolve())
    return BilmReference(source, content_hash(model), model.num_layers, model.dim, is_carried, inputs.precision)


def _describe_mixes(fitting: Fitting) -> list[dict[str, Any]]:
    mixes = cast(TaskNetwork, fitting.network).encoder.mixes
    found = [cast(ScalarMix, mix) for mix in mixes] if mixes is not None else []
    return [{"weights": mix.normalized_weights().tolist(), "gamma": mix.gamma.item()} for mix in found]
