"""Lessons are whole sentences of the corpus, the same for every number of processes and after every resuming."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from elmo.corpus.prepared import PreparedCorpus
from elmo.pretrain.distillation import Distillation, pack_rows
from elmo.pretrain.settings import read_settings
from elmo.pretrain.stream import Pieces, WindowStream


class AttentiveTeacher:
    """Remembers what it was given and has a vector for every word but "a"."""

    def __init__(self):
        self.sentences = []

    def cut(self, sentences):
        self.sentences += sentences
        words = [word for sentence in sentences for word in sentence]
        return Pieces((), torch.tensor([number for number, word in enumerate(words) if word != "a"]))


@pytest.fixture(scope="module")
def corpus(corpus_folder):
    return PreparedCorpus.open(corpus_folder)


def make_lessons(corpus, teacher, *, num_words=60, rank=0, num_processes=1, done=0, num_updates=100, **changes):
    """Lessons of at least `num_words` in every update, unless changed."""
    settings = read_settings(
        preset="tiny",
        changes={
            "num_rows": 1, "num_steps": num_words, "seed": 3,
            "teacher": {"model": "x", "share": 1.0, "every": 1, "max_words": 9}, **changes,
        },
    )  # fmt: skip
    processes = SimpleNamespace(rank=rank, count=num_processes, device="cpu")
    found = Distillation(corpus, settings, processes, num_updates=num_updates, teacher=teacher)
    return found.lessons(done=done)


def read_words(corpus, lesson, direction):
    ids = lesson.word_index[direction].flatten()[lesson.places[direction]]
    return corpus.words(ids.numpy())


def test_both_directions_find_the_words_that_the_teacher_reads(corpus):
    teacher = AttentiveTeacher()
    lesson = next(make_lessons(corpus, teacher))
    read = [word for sentence in teacher.sentences for word in sentence]
    assert 60 <= lesson.num_words == len(read) < 70
    assert all(len(sentence) <= 9 and sentence[0] == "the" for sentence in teacher.sentences)
    expected = [word for word in read if word != "a"]
    assert read_words(corpus, lesson, 0) == read_words(corpus, lesson, 1) == expected
    assert len(expected) < len(read)
    # Right to left reads each sentence's last word first, just after the mark.
    ids = lesson.word_index.numpy()
    start = ids[0, :, 0].tolist().index(0)
    length = (ids[0, start + 1 :, 0] == 0).argmax()
    ahead, back = ids[:, start + 1 : start + 1 + length, 0]
    assert ahead.tolist() == back[::-1].tolist()


def test_what_follows_is_known_inside_sentences_and_at_ends_that_were_not_truncated(corpus):
    teacher = AttentiveTeacher()
    lesson = next(make_lessons(corpus, teacher, **{"teacher.predict": True}))
    expected = [[], []]
    for words in teacher.sentences:
        for pairs, (first, last), read in zip(
            expected, (("<S>", "</S>"), ("</S>", "<S>")), (words, words[::-1]), strict=True
        ):
            followed = list(zip([first, *read], [*read, last], strict=True))
            if len(words) == 9:  # perhaps it was truncated after its ninth word
                followed = followed[:-1] if pairs is expected[0] else followed[1:]
            pairs += followed
    for direction, pairs in enumerate(expected):
        ids = lesson.word_index[direction].flatten()[lesson.predicting[direction]].numpy()
        mark = ("<S>", "</S>")[direction]
        read = [mark if number == 0 else corpus.words([number])[0] for number in ids]
        following = [corpus.vocabulary[number] for number in lesson.targets[direction].tolist()]
        assert list(zip(read, following, strict=True)) == pairs
    assert lesson.num_predicted == len(expected[0])
    assert {len(words) for words in teacher.sentences} > {9}
    assert next(make_lessons(corpus, AttentiveTeacher())).num_predicted == 0


def test_a_lesson_follows_from_the_seed_and_its_number(corpus):
    two = {"windows_per_update": 2}
    whole = make_lessons(corpus, AttentiveTeacher(), **two)
    lessons = [next(whole) for _ in range(8)]
    resumed = make_lessons(corpus, AttentiveTeacher(), done=3, **two)
    for lesson in lessons[6:]:
        assert torch.equal(next(resumed).word_index, lesson.word_index)
    assert len({lesson.word_index.numpy().tobytes() for lesson in lessons}) == 8
    other = next(make_lessons(corpus, AttentiveTeacher(), seed=4))
    assert other.word_index.numpy().tobytes() != lessons[0].word_index.numpy().tobytes()


def test_lessons_are_where_the_settings_say(corpus):
    changes = {"windows_per_update": 2, "teacher.every": 2, "teacher.end": 2 / 3}
    lessons = make_lessons(corpus, AttentiveTeacher(), num_updates=6, **changes)
    found = [lesson is not None for lesson in itertools.islice(lessons, 12)]
    assert found == [False, False, True, True] * 2 + [False] * 4


def test_processes_share_the_sentences_of_one(corpus):
    alone = AttentiveTeacher()
    lesson = next(make_lessons(corpus, alone))
    parts = [AttentiveTeacher() for _ in range(3)]
    predict = {"teacher.predict": True}
    shares = [
        next(make_lessons(corpus, teacher, rank=rank, num_processes=3, **predict))
        for rank, teacher in enumerate(parts)
    ]
    found = [sentence for teacher in parts for sentence in teacher.sentences]
    assert sorted(found) == sorted(alone.sentences)
    assert {share.num_words for share in shares} == {lesson.num_words}
    assert {share.num_predicted for share in shares} == {sum(share.targets.shape[1] for share in shares)}
    few = [make_lessons(corpus, AttentiveTeacher(), num_words=1, rank=rank, num_processes=2) for rank in range(2)]
    assert [next(lessons) is None for lessons in few] == [False, True]


def test_rows_hold_whole_sentences_and_little_else():
    lengths = np.random.default_rng(0).integers(1, 49, 200).tolist()
    rows = pack_rows(lengths)
    assert sorted(number for row in rows for number in row) == list(range(200))
    size = max(lengths) + 1
    assert max(sum(lengths[number] + 1 for number in row) for row in rows) <= size
    assert sum(lengths) + 200 > 0.9 * size * len(rows)


def test_a_window_reads_the_words_of_its_lesson(corpus):
    drawn = next(make_lessons(corpus, AttentiveTeacher())).word_index
    settings = {"num_rows": 2, "rows": range(2), "num_steps": 5, "seed": 0, "max_characters": 12}
    settings |= {"read_words": True, "reset_at_sentences": True}
    batch = WindowStream(corpus, **settings, lessons=make_lessons(corpus, AttentiveTeacher())).next_batch()
    alone = WindowStream(corpus, **settings).next_batch()
    lesson = batch.lesson
    torch.testing.assert_close(batch.char_ids[batch.word_index], alone.char_ids[alone.word_index])
    torch.testing.assert_close(batch.word_ids[batch.word_index], alone.word_ids[alone.word_index])
    for direction, (boundary, ids) in enumerate(zip((0, 1), drawn, strict=True)):
        assert (lesson.word_index[direction][ids == 0] == boundary).all()
        found = batch.char_ids[lesson.word_index[direction]][ids != 0]
        assert found.tolist() == corpus.character_ids(ids[ids != 0].numpy(), 12).tolist()
    assert torch.equal(lesson.keep == 0, drawn[0] == 0)
