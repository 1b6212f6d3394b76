"""Words and offsets: a table of examples per rule, then properties of any text."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elmo.text.tokenize import Word, split_on_spaces, tokenize

# Any character at all, lone surrogates included, mixed with the pieces that the rules look for.
ANY_TEXT = st.lists(
    st.one_of(
        st.text(st.characters(exclude_categories=()), max_size=6),
        st.sampled_from(list(" .-,1@aZ(’😀中\u200d\u0301\u00ad\u3000\xa0\x1c\x00\ud83d")),
        st.sampled_from(["'s", "..", "--", "U.S.", "Mr", "No", "http://", "🇩🇪"]),
    ),
    max_size=20,
).map("".join)


def texts(sentence):
    return [word.text for word in tokenize(sentence)]


# The expected words are written with spaces between them.
MOSES = [
    ("I don't know, it's John's.", "I don 't know , it 's John 's ."),
    ("They can't, O'Brien", "They can 't , O 'Brien"),
    ("the 1990's and '90s", "the 1990 's and ' 90s"),
    ("rock'n'roll", "rock 'n'roll"),
    ("the dogs' 'quoted' bones", "the dogs ' ' quoted ' bones"),
    ("1,000 or 3.14, a,b and 5,", "1,000 or 3.14 , a , b and 5 ,"),
    ("a well-known -5 pre- and", "a well-known -5 pre- and"),
    ("$5.50 (or 5%) at 10:30", "$ 5.50 ( or 5 % ) at 10 : 30"),
    ("and/or x=y", "and / or x = y"),
    ("Wait... what....no", "Wait ... what .... no"),
    ("one -- two", "one -- two"),
    ("No! Really?!", "No ! Really ? !"),
    ("in the U.S. and U.S.-based", "in the U.S. and U.S.-based"),
    ("J. R. R. Tolkien, Ph.D., at 5 p.m. today", "J. R. R. Tolkien , Ph.D. , at 5 p.m. today"),
    ("Mr. and Mrs. X vs. Dr. Y, e.g., here", "Mr. and Mrs. X vs. Dr. Y , e.g. , here"),
    ("No. 5, pp. 3-4. I say No. Yes.", "No. 5 , pp. 3-4 . I say No . Yes ."),
    ("The Hosp. of Paris. It is", "The Hosp. of Paris . It is"),
    ("It ended. Then it began.", "It ended . Then it began ."),
    ('He said "hello." (Or so.)', 'He said " hello . " ( Or so . )'),
    ("“Stop.” ‘No.’", "“ Stop . ” ‘ No . ’"),
]
DELIBERATELY_UNLIKE_MOSES = [
    ("don’t, John’s, O’Brien", "don ’t , John ’s , O ’Brien"),
    ("U.S.'s, (NASA)'s", "U.S. 's , ( NASA ) 's"),
    ("one--two", "one -- two"),
    ("i like it. it is good.", "i like it . it is good ."),
    ("He knows Mr. Smith of Apple Inc.", "He knows Mr. Smith of Apple Inc ."),
    ("See https://a.org/b_(c)?d=e#f, or www.x.org.", "See https://a.org/b_(c)?d=e#f , or www.x.org ."),
    ("(http://a.org/b)! <ftp://c.d>", "( http://a.org/b ) ! < ftp://c.d >"),
    ("Mail me.you+x@ex-ample.co.uk.", "Mail me.you+x@ex-ample.co.uk ."),
]
SCRIPTS = [
    ("Всё хорошо, А. С. Пушкин.", "Всё хорошо , А. С. Пушкин ."),
    ("كيف حالُكَ؟", "كيف حالُكَ ؟"),
    ("می‌خواهم", "می‌خواهم"),
    ("हिन्दी में नहीं।", "हिन्दी में नहीं ।"),
    ("cafe\u0301 nai\u0308ve.", "cafe\u0301 nai\u0308ve ."),
    ("col·lecció צה״ל", "col·lecció צה״ל"),
    ("我爱3.5年Python。", "我 爱 3.5 年 Python 。"),
    ("𠮷野家 葛\U000e0100", "𠮷 野 家 葛\U000e0100"),
    ("これはテスト、食べる", "これはテスト 、 食 べる"),
    ("한국어는 ภาษาไทย", "한국어는 ภาษาไทย"),
    ("联系user@example.com谢谢", "联 系 user@example.com 谢 谢"),
    ("👩‍👩‍👧👍🏽❤️ ok😀", "👩‍👩‍👧 👍🏽 ❤️ ok 😀"),
    ("🇩🇪🇫🇷1️⃣ #️⃣", "🇩🇪 🇫🇷 1️⃣ #️⃣"),
]


@pytest.mark.parametrize(("sentence", "words"), MOSES + DELIBERATELY_UNLIKE_MOSES + SCRIPTS)
def test_text_is_cut_into_the_expected_words(sentence, words):
    assert texts(sentence) == words.split(" ")


def test_offsets_count_characters_even_after_astral_ones():
    assert tokenize("😀 𝒳y, z") == [Word("😀", 0, 1), Word("𝒳y", 2, 4), Word(",", 4, 5), Word("z", 6, 7)]


@pytest.mark.parametrize("space", ["\n", "\t", "\xa0", "\u2003", "\u3000", "\x85", "\x1c", "\u2028"])
def test_every_whitespace_separates_words(space):
    assert tokenize(f"{space}a{space}{space}b{space}") == [Word("a", 1, 2), Word("b", 4, 5)]


@pytest.mark.parametrize("text", ["", " ", "\n\u3000\t"])
def test_text_without_words_gives_no_words(text):
    assert tokenize(text) == []


def test_lone_surrogates_are_words_with_right_offsets():
    assert tokenize("😀x\udc80 y") == [
        Word("😀", 0, 1),
        Word("x", 1, 2),
        Word("\udc80", 2, 3),
        Word("y", 4, 5),
    ]


@settings(max_examples=400, deadline=None)
@given(ANY_TEXT)
@example("a\x00b\u200bc\ufeff")
def test_words_are_ordered_slices_that_cover_all_but_whitespace(text):
    position = 0
    for word in tokenize(text):
        assert text[word.start : word.end] == word.text != ""
        assert text[position : word.start].strip() == ""
        assert not any(character.isspace() for character in word.text)
        position = word.end
    assert text[position:].strip() == ""


@settings(max_examples=200, deadline=None)
@given(ANY_TEXT)
def test_splitting_on_spaces_is_str_split_with_offsets(text):
    words = split_on_spaces(text)
    assert [word.text for word in words] == [piece for piece in text.split(" ") if piece]
    assert all(text[word.start : word.end] == word.text for word in words)


def test_splitting_on_spaces_leaves_other_whitespace_and_punctuation_alone():
    assert split_on_spaces("  don't\t go. ") == [Word("don't\t", 2, 8), Word("go.", 9, 12)]


def test_hostile_repetitions_take_linear_time():
    # Any of these would run for long if a rule looked ahead without bound.
    for piece in ["a+", "a..", "a@", "a'", "A.", "http://(", "\u200d", "Mr.)"]:
        assert tokenize(piece * 10_000)[-1].end == len(piece) * 10_000
