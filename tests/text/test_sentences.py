"""Sentence boundaries: examples, then properties of any text."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.errors import InputError
from elmo.text.tokenize import split_sentences

ANY_TEXT = st.lists(
    st.one_of(
        st.text(st.characters(exclude_categories=()), max_size=6),
        st.sampled_from(list('Aé😀\n\u2029\u3000\xa0\x00\ud83d。“"()')),
        st.sampled_from([". ", "! ", "? ", "\n\n", "\r\n", "Mr.", "U.S. "]),
    ),
    max_size=20,
).map("".join)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", []),
        (" \n\n\t ", []),
        ("No end", ["No end"]),
        ("  One is here. Two is there!  Three? ", ["One is here.", "Two is there!", "Three?"]),
        ("Dr. Smith met J. Doe. Then he left.", ["Dr. Smith met J. Doe.", "Then he left."]),
        ('He said "Stop. Now." and left. Good.', ['He said "Stop. Now." and left.', "Good."]),
        ("A wrapped\nline ends. So does\nthis.", ["A wrapped\nline ends.", "So does\nthis."]),
        ("A title\n\nThe text. More.", ["A title", "The text.", "More."]),
        ("A title\r\n \t\r\nThe text", ["A title", "The text"]),
        ("A title\u2029The text", ["A title", "The text"]),
        ("第一句。第二句！", ["第一句。", "第二句！"]),
    ],
)
def test_text_is_split_into_the_expected_sentences(text, sentences):
    assert split_sentences(text) == sentences


@pytest.mark.parametrize("language", ["de", "DE", "de-AT", "de_CH"])
def test_the_language_decides_and_its_region_does_not_matter(language):
    text = "Am 3. Mai kam sie. Er bzw. Hans ging."
    assert split_sentences(text, language=language) == ["Am 3. Mai kam sie.", "Er bzw. Hans ging."]


def test_a_language_without_rules_is_split_like_english():
    text = "Mr. Smith came. He left."
    assert split_sentences(text, language="zz") == split_sentences(text) == ["Mr. Smith came.", "He left."]


@pytest.mark.parametrize("language", ["", "german", "d", "\ud800", "de at"])
def test_invalid_language_codes_are_rejected(language):
    with pytest.raises(InputError, match=r"^language is .*, but a code such as 'en', 'de' or 'pt-BR' is expected\.$"):
        split_sentences("Text.", language=language)


def test_a_quote_closed_far_away_does_not_swallow_the_sentences_between():
    sentences = split_sentences('He said "this. ' + "Another one is here. " * 100 + 'The end".')
    assert len(sentences) == 102


def test_unicode_whitespace_and_lone_surrogates_are_unchanged():
    # sentencex by itself panics on the first and cannot take the second.
    assert split_sentences("A\u2003\u2003.) is. Now\udc80here.") == ["A\u2003\u2003.) is.", "Now\udc80here."]


@settings(max_examples=300, deadline=None)
@given(ANY_TEXT, st.sampled_from(["en", "de", "hi", "ja", "zz"]))
def test_sentences_are_ordered_slices_that_cover_all_but_whitespace(text, language):
    position = 0
    for sentence in split_sentences(text, language=language):
        assert sentence == sentence.strip() != ""
        assert "\n\n" not in sentence
        start = text.index(sentence, position)
        assert text[position:start].strip() == ""
        position = start + len(sentence)
    assert text[position:].strip() == ""
