"""Marked words: brackets are removed, and the range covers the words inside them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.errors import InputError
from elmo.text.sentence_input import read_marked
from elmo.text.tokenize import split_on_spaces, tokenize


@pytest.mark.parametrize(
    ("sentence", "words", "marked"),
    [
        ("I went to the [bank].", "I went to the bank .", (4, 5)),
        ("[I] went", "I went", (0, 1)),
        ("in [New York] today", "in New York today", (1, 3)),
        ("a [ b ] c", "a b c", (1, 2)),
        ("the [York]-based firm", "the York-based firm", (1, 2)),
        ("I [don't] know", "I don 't know", (1, 3)),
        ("go 语[言] 😀 now", "go 语 言 😀 now", (2, 3)),
        ("我去【银行】存钱", "我 去 银 行 存 钱", (2, 4)),
        ("河边的［银行］", "河 边 的 银 行", (3, 5)),
        ("他去了「银行」", "他 去 了 银 行", (3, 5)),
        ("他说「你好」，去[银行]", "他 说 「 你 好 」 ， 去 银 行", (8, 10)),
    ],
)
def test_the_marked_words_are_found_and_the_brackets_vanish(sentence, words, marked):
    assert read_marked(sentence, tokenize) == (words.split(), marked)


def test_marks_work_with_words_split_on_spaces():
    assert read_marked("to the [bank].", split_on_spaces) == (["to", "the", "bank."], (2, 3))


@settings(deadline=None)
@given(st.lists(st.sampled_from(["a", "bank", "ß", "言", "don't"]), min_size=1, max_size=6), st.data())
def test_marking_words_changes_no_word(words, data):
    start = data.draw(st.integers(0, len(words) - 1))
    end = data.draw(st.integers(start + 1, len(words)))
    marked = " ".join([*words[:start], f"[{' '.join(words[start:end])}]", *words[end:]])
    assert read_marked(marked, split_on_spaces) == (words, (start, end))


@settings(deadline=None)
@given(st.text("ab] ."), st.text("ab .", min_size=1), st.text("ab [."))
def test_one_mark_is_found_among_stray_brackets(before, inside, after):
    sentence = f"{before}[{inside}]{after}"
    if inside.isspace():
        with pytest.raises(InputError, match="hold no word"):
            read_marked(sentence, tokenize)
    else:
        words, (start, end) = read_marked(sentence, tokenize)
        assert words == [word.text for word in tokenize(before + inside + after)]
        assert "".join(inside.split()) in "".join(words[start:end])


@pytest.mark.parametrize(
    ("sentence", "number"),
    [("no mark", 0), ("[a] and 【b】", 2), ("「a」和「b」", 0), ("empty []", 0), ("[open", 0), ("[[]]", 0)],
)
def test_anything_but_one_mark_is_refused(sentence, number):
    with pytest.raises(InputError) as raised:
        read_marked(sentence, tokenize)
    assert str(raised.value) == (
        f"The sentence {sentence!r} has {number} marked words; put exactly one in brackets, as in "
        "'I went to the [bank]'."
    )


def test_brackets_around_nothing_are_refused():
    with pytest.raises(InputError) as raised:
        read_marked("to [ ] go", tokenize)
    assert str(raised.value) == "The brackets in 'to [ ] go' hold no word; put them around one."
