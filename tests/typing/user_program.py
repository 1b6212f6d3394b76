"""Ordinary calls of the public API; mypy checks this file as a user's program, it is not run."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor
from typing_extensions import assert_type

from elmo import Elmo, ElmoError, ElmoLayer, analysis, tasks
from elmo.compat.allennlp import Elmo as AllenNlpElmo
from elmo.compat.allennlp import ElmoEmbedder, ElmoRepresentations, batch_to_ids
from elmo.compat.manylangs import Embedder
from elmo.compat.simple_elmo import ElmoModel
from elmo.compat.tfhub import Module
from elmo.inference.scoring import SentenceScore
from elmo.inference.substitution import Substitute
from elmo.layer import ElmoOutput
from elmo.text.tokenize import Word

Array = npt.NDArray[np.float32]
WORDS = [["I", "went"], ["Hello"]]


def use_the_facade() -> None:
    model = Elmo.from_pretrained("tiny", device="cpu", state="carry")
    assert_type(model, Elmo)
    assert_type(model.embed("I went"), Array)
    assert_type(model.embed(["I went", "Hello"], layers="all"), list[Array])
    assert_type(model.embed(WORDS, layers=[0.2, 0.3, 0.5]), list[Array])
    vectors = model.embed_iter(WORDS, layers=-1)
    assert_type(next(vectors), Array)
    assert_type(model.encode(["I went", ["or", "words"]], pooling="max", normalize_embeddings=True), Array)
    assert_type(model.encode(WORDS, batch_size=8, show_progress_bar=True), Array)
    assert_type(model.to("auto").sentence_shape(), tuple[int, ...])
    assert_type(model.embed_spans("I went home", [(0, 2)]), Array)
    assert_type(model.embed_spans(["I", "went"], [(0, 2)]), Array)
    assert_type(model.embed_spans(WORDS, [[(0, 2)], []]), list[Array])
    assert_type(model.context_vectors("I went"), Array)
    assert_type(model.context_vectors(WORDS), list[Array])
    assert_type(model.similarity("the [bank]", "a [bank]"), float)
    assert_type(model.similarity(["the bank", "a bank"]), Array)
    assert_type(model.similarity(model.encode(["a"]), model.embed(["b", "c"])), Array)
    assert_type(model.score("I went"), SentenceScore)
    assert_type(model.score(["I went"], split_on_spaces=True), list[SentenceScore])
    assert_type(model.substitutes("the [bank]", top_k=3), list[Substitute])
    assert_type(model.tokenize("I went"), list[Word])
    assert_type(model.tokenize(["I went"]), list[list[Word]])
    assert_type(model.dim + model.num_layers, int)
    model.reset_state()
    try:
        model.save_pretrained("folder")
    except ElmoError as error:
        assert_type(error, ElmoError)


def use_the_layer(model: Elmo) -> None:
    layer = ElmoLayer(model, num_mixes=2, dropout=0.0)
    output = layer(["I went"])
    assert_type(output, ElmoOutput)
    assert_type(output.mixes, tuple[Tensor, ...])
    assert_type(layer.mix_penalty(0.001), Tensor)


def use_the_analysis(model: Elmo) -> None:
    index = analysis.build_index(model, "index", ["texts.txt"])
    assert_type(index, analysis.CorpusIndex)
    found = analysis.find_neighbors(model, "a [play]", index, words="same", layers=[1, "average"])
    assert_type(found.layers["meaning"][0].occurrence, analysis.Occurrence)
    assert_type(found.static[0].word, str)
    occurrences, num_found = index.find_occurrences("play", max_occurrences=100)
    senses = analysis.induce_senses(model, "play", occurrences, num_found=num_found, layer="top")
    assert_type(senses, analysis.WordSenses)
    result = tasks.probe(model, "tagging", train="a.conllu", test="b.conllu", columns={"tag": "xpos"})
    assert_type(result.rows[0].scores["tag"].spread, float | None)
    compared = analysis.compare_sentences(model, "a bank", ["the", "bank"], layers=[0, "top"])
    assert_type(compared.cosines[0], Array)
    analysis.draw_similarity_map(compared, "similarity.png")


def use_a_task(task: tasks.Task) -> None:
    assert_type(task.mixing_weights, list[dict[str, Any]])


def use_allennlp() -> None:
    elmo = AllenNlpElmo("options.json", "weights.hdf5", 2, dropout=0.0)
    ids = batch_to_ids(WORDS)
    assert_type(ids, Tensor)
    output = elmo(ids)
    assert_type(output, ElmoRepresentations)
    assert_type(output["elmo_representations"], list[Tensor])
    assert_type(elmo(None, ids[..., 0])["mask"], Tensor)
    assert_type(elmo.get_output_dim(), int)
    embedder = ElmoEmbedder()
    assert_type(embedder.embed_sentence(WORDS[0]), Array)
    assert_type(embedder.embed_batch(WORDS), list[Array])
    assert_type(embedder.embed_sentences(WORDS, batch_size=2), Iterator[Array])
    embedder.embed_file("sentences.txt", "vectors.hdf5", output_format="top")
    with open("sentences.txt", encoding="utf-8") as file:  # noqa: PTH123
        embedder.embed_file(file, "vectors.hdf5", "average")


def use_the_others(as_dict: bool) -> None:
    module = Module("https://tfhub.dev/google/elmo/3", trainable=True)
    assert_type(module(["the cat", b"the mat"]), Tensor)
    assert_type(module(["the cat"], signature="default", as_dict=False), Tensor)
    assert_type(module(["the cat"], as_dict=True), dict[str, Tensor])
    tokens = {"tokens": [["the", "cat"]], "sequence_len": [2]}
    assert_type(module(tokens, "tokens", as_dict=True), dict[str, Tensor])
    assert_type(module(tokens, "tokens", as_dict), Tensor | dict[str, Tensor])
    simple = ElmoModel()
    assert_type(simple.load("209.zip", max_batch_size=64), str)
    assert_type(simple.get_elmo_vectors(WORDS, layers="all"), Array)
    assert_type(simple.get_elmo_vector_average(WORDS), Array)
    assert_type(Embedder("zht.model").sents2elmo(WORDS, output_layer=-2), list[Array])
