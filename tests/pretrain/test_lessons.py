"""Lessons are whole sentences of the corpus, the same for every number of processes and after every resuming."""

import numpy as np
import pytest
import torch

from elmo.corpus.prepared import PreparedCorpus
from elmo.pretrain.lessons import LessonStream, pack_rows
from elmo.pretrain.stream import WindowStream
from elmo.pretrain.teacher import Pieces


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


def make_stream(corpus, teacher, **changes):
    settings = {"num_words": 60, "max_words": 9, "updates": range(100), "seed": 3}
    return LessonStream(corpus, teacher, **{**settings, **changes})


def read_words(corpus, lesson, direction):
    steps, rows = np.unravel_index(lesson.places[direction].numpy(), lesson.ids.shape[1:])
    return corpus.words(lesson.ids[direction, steps, rows])


def test_both_directions_find_the_words_that_the_teacher_reads(corpus):
    teacher = AttentiveTeacher()
    lesson = make_stream(corpus, teacher).next_lesson()
    read = [word for sentence in teacher.sentences for word in sentence]
    assert 60 <= lesson.num_words == len(read) < 70
    assert all(len(sentence) <= 9 and sentence[0] == "the" for sentence in teacher.sentences)
    expected = [word for word in read if word != "a"]
    assert read_words(corpus, lesson, 0) == read_words(corpus, lesson, 1) == expected
    assert len(expected) < len(read)
    # Right to left reads each sentence's last word first, just after the mark.
    start = lesson.ids[0, :, 0].tolist().index(0)
    length = (lesson.ids[0, start + 1 :, 0] == 0).argmax()
    ahead, back = lesson.ids[:, start + 1 : start + 1 + length, 0]
    assert ahead.tolist() == back[::-1].tolist()


def test_what_follows_is_known_inside_sentences_and_at_ends_that_were_not_cut(corpus):
    teacher = AttentiveTeacher()
    lesson = make_stream(corpus, teacher, predict=True).next_lesson()
    following = lesson.following
    expected = [[], []]
    for words in teacher.sentences:
        for pairs, read in zip(expected, (words, words[::-1]), strict=True):
            followed = list(zip(["|", *read], [*read, "|"], strict=True))
            if len(words) == 9:  # perhaps it was cut after its ninth word
                followed = followed[:-1] if pairs is expected[0] else followed[1:]
            pairs += followed
    for direction, pairs in enumerate(expected):
        ids = lesson.ids[direction].ravel()[following.places[direction]], following.ids[direction]
        read, next_words = (
            ["|" if number == 0 else corpus.words(np.array([number]))[0] for number in each] for each in ids
        )
        assert list(zip(read, next_words, strict=True)) == pairs
    assert following.num_words == len(expected[0])
    assert {len(words) for words in teacher.sentences} > {9}
    assert make_stream(corpus, AttentiveTeacher()).next_lesson().following is None


def test_a_lesson_follows_from_the_seed_and_its_number(corpus):
    whole = make_stream(corpus, AttentiveTeacher(), windows_per_update=2)
    lessons = [whole.next_lesson() for _ in range(8)]
    resumed = make_stream(corpus, AttentiveTeacher(), windows_per_update=2, done=3)
    for lesson in lessons[6:]:
        np.testing.assert_array_equal(resumed.next_lesson().ids, lesson.ids)
    assert len({lesson.ids.tobytes() for lesson in lessons}) == 8
    other = make_stream(corpus, AttentiveTeacher(), seed=4).next_lesson()
    assert other.ids.tobytes() != lessons[0].ids.tobytes()


def test_lessons_are_where_the_settings_say(corpus):
    stream = make_stream(corpus, AttentiveTeacher(), updates=range(1, 5, 2), windows_per_update=2)
    assert [stream.next_lesson() is not None for _ in range(12)] == [False, False, True, True] * 2 + [False] * 4


def test_processes_share_the_sentences_of_one(corpus):
    alone = AttentiveTeacher()
    lesson = make_stream(corpus, alone).next_lesson()
    parts = [AttentiveTeacher() for _ in range(3)]
    shares = [
        make_stream(corpus, teacher, rank=rank, num_processes=3).next_lesson()
        for rank, teacher in enumerate(parts)
    ]
    found = [sentence for teacher in parts for sentence in teacher.sentences]
    assert sorted(found) == sorted(alone.sentences)
    assert {share.num_words for share in shares} == {lesson.num_words}
    predicted = [
        make_stream(corpus, AttentiveTeacher(), rank=rank, num_processes=3, predict=True).next_lesson().following
        for rank in range(3)
    ]
    assert {part.num_words for part in predicted} == {sum(part.ids.shape[1] for part in predicted)}
    few = [make_stream(corpus, AttentiveTeacher(), num_words=1, rank=rank, num_processes=2) for rank in range(2)]
    assert [stream.next_lesson() is None for stream in few] == [False, True]


def test_rows_hold_whole_sentences_and_little_else():
    lengths = np.random.default_rng(0).integers(1, 49, 200).tolist()
    rows = pack_rows(lengths)
    assert sorted(number for row in rows for number in row) == list(range(200))
    size = max(lengths) + 1
    assert max(sum(lengths[number] + 1 for number in row) for row in rows) <= size
    assert sum(lengths) + 200 > 0.9 * size * len(rows)


def test_a_window_reads_the_words_of_its_lesson(corpus):
    lessons = make_stream(corpus, AttentiveTeacher())
    drawn = make_stream(corpus, AttentiveTeacher()).next_lesson()
    settings = {"num_rows": 2, "rows": range(2), "num_steps": 5, "seed": 0, "max_characters": 12}
    stream = WindowStream(corpus, **settings, read_words=True, reset_at_sentences=True, lessons=lessons)
    plain = WindowStream(corpus, **settings, read_words=True, reset_at_sentences=True)
    batch, alone = stream.next_batch(), plain.next_batch()
    lesson = batch.lesson
    torch.testing.assert_close(batch.char_ids[batch.word_index], alone.char_ids[alone.word_index])
    torch.testing.assert_close(batch.word_ids[batch.word_index], alone.word_ids[alone.word_index])
    for direction, (boundary, ids) in enumerate(zip((0, 1), drawn.ids, strict=True)):
        is_mark = torch.from_numpy(ids == 0)
        assert (lesson.word_index[direction][is_mark] == boundary).all()
        found = batch.char_ids[lesson.word_index[direction]][~is_mark]
        assert found.tolist() == corpus.character_ids(ids[ids != 0], 12).tolist()
    assert torch.equal(lesson.keep == 0, torch.from_numpy(drawn.ids[0] == 0))
