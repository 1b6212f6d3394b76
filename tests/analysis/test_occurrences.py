"""Occurrences are the same from a text and from an index, and are shown with the requested context."""

from elmo.analysis import Occurrence, TextSettings, build_index, find_occurrences
from elmo.analysis.occurrences import CorpusSentence, read_corpus


def test_a_phrase_is_marked_in_its_sentence():
    phrase = Occurrence(CorpusSentence("a  New\tYork street", ((0, 1), (3, 6), (7, 11), (12, 18)), "text", 5), 1, 3)
    assert (phrase.word, phrase.mark()) == ("New\tYork", "a [New York] street")


def test_text_and_an_index_have_the_same_occurrences(model, texts, tmp_path):
    index = build_index(model, tmp_path / "index", texts)
    found = [find_occurrences(corpus, "bank") for corpus in (texts, index)]
    assert found[0] == found[1] and found[0].num_found == 39


def test_text_is_split_as_the_settings_say(tmp_path):
    path = tmp_path / "text.jsonl"
    path.write_text('{"body": "One bank. Two bank-notes."}\n')
    by_sentence = list(read_corpus([str(path)], TextSettings(field="body")))
    assert [each.text for each in by_sentence] == ["One bank.", "Two bank-notes."]
    (whole,) = read_corpus([str(path)], TextSettings(field="body", split="none", split_on_spaces=True))
    assert whole.words == ["One", "bank.", "Two", "bank-notes."]


def test_a_word_that_does_not_occur_has_no_occurrences(texts):
    assert find_occurrences(texts, "unicorn") == find_occurrences(texts, "purple bank") == ([], 0)
