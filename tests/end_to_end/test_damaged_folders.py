"""Folders of every kind with one damaged file: they still work or report one sentence."""

import contextlib
import os
import shutil
import signal

import pytest

from elmo import CheckpointError, ConfigError, Elmo, vectors
from elmo.analysis import CorpusIndex, build_index, find_neighbors
from elmo.checkpoint.open import open_checkpoint
from elmo.corpus.prepare import prepare
from elmo.corpus.prepared import PreparedCorpus
from elmo.errors import ElmoError
from elmo.pretrain.launch import resume_run, start_run
from elmo.pretrain.settings import read_settings
from elmo.tasks import load
from elmo.vectors import VectorSettings, embed_files
from tests.checkpoint import bilm_files, manylangs_files
from tests.end_to_end.test_kill_points import TINY
from tests.language_models import make_language_model
from tests.mutations import mutated_folders
from tests.pretrain.conftest import make_text

COUNT = 80


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    (folder / "text.txt").write_text(make_text(0, 40))
    return folder / "text.txt"


def check_in_child(use, folder):
    """Use a folder in a process of its own, since a damaged index may crash one; return how that ended."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with contextlib.suppress(ElmoError):
                use(folder)
            code = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return "crashed" if code == -signal.SIGSEGV else code


def use_vectors(folder):
    opened = vectors.open(folder)
    with contextlib.suppress(ElmoError):
        opened.verify()
    if len(opened):
        assert opened[0].words and opened[-1].vectors is not None


@pytest.mark.slow
@pytest.mark.parametrize("file_format", ["parquet", "npy"])
@pytest.mark.needs("fork")
def test_vectors(texts, tmp_path, file_format):
    embed_files(make_language_model(), [texts], tmp_path / "v", VectorSettings(part_bytes=800, file_format=file_format))
    for folder in mutated_folders(tmp_path / "v", tmp_path, seed=f"vectors {file_format}", count=COUNT):
        assert check_in_child(use_vectors, folder) == 0


@pytest.mark.slow
@pytest.mark.needs("fork")
def test_index(texts, tmp_path):
    model = make_language_model()
    build_index(model, tmp_path / "index", [str(texts)])

    def use(folder):
        for words in ("any", "same"):
            find_neighbors(model, "the [bank] sees the river", CorpusIndex(folder), words=words)

    for folder in mutated_folders(tmp_path / "index", tmp_path, seed="index", count=COUNT):
        assert check_in_child(use, folder) == 0


@pytest.mark.slow
def test_corpus_and_run(texts, tmp_path):
    prepare([texts], tmp_path / "corpus", split="lines", vocabulary_size=18, num_workers=1)
    for folder in mutated_folders(tmp_path / "corpus", tmp_path, seed="corpus", count=COUNT):
        with contextlib.suppress(ElmoError):
            corpus = PreparedCorpus.open(folder)
            assert corpus.num_tokens > 0 and len(corpus.vocabulary) == 17
    start_run(tmp_path / "run", tmp_path / "corpus", read_settings(preset="tiny", changes=TINY)).train()
    for folder in mutated_folders(tmp_path / "run", tmp_path, seed="run", count=COUNT):
        with contextlib.suppress(ElmoError):
            resume_run(folder)
        with contextlib.suppress(ElmoError):
            Elmo.from_pretrained(folder)


@pytest.mark.slow
def test_task(texts, tmp_path):
    from tests.cli.test_process import make_task

    task = make_task(tmp_path)
    for folder in mutated_folders(task, tmp_path, seed="task", count=COUNT):
        with contextlib.suppress(ElmoError):
            load(folder).predict(["look, a cat here"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["elmo", "hdf5", "manylangs", "zip"])
def test_models(tmp_path, kind):
    source = tmp_path / kind
    if kind == "manylangs":
        settings = manylangs_files.make_settings()
        manylangs_files.write_model(source, settings, *manylangs_files.make_state_dicts(settings))
    elif kind == "elmo":
        make_language_model().save_pretrained(source)
    else:
        options = bilm_files.make_options()
        words = ["<S>", "</S>", "<UNK>", "the"]
        bilm_files.write_model(tmp_path / "hdf5", options, bilm_files.make_variables(options), words)
        if kind == "zip":
            source.mkdir()
            shutil.make_archive(str(source / "model"), "zip", tmp_path / "hdf5")
    for folder in mutated_folders(source, tmp_path, seed=f"models {kind}", count=2 * COUNT):
        with contextlib.suppress(CheckpointError, ConfigError):
            open_checkpoint(folder / "model.zip" if kind == "zip" else folder)
