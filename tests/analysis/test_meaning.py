"""The model of the package, with its context layer, tells meanings apart in every kind of analysis."""

import pytest

from elmo import Elmo
from elmo.analysis import compare_words, find_neighbors, find_occurrences, induce_senses, map_word

MONEY = [
    "He opened an account at the bank and deposited some money .",
    "The bank raised its interest rates on loans last year .",
    "She borrowed money from the bank to buy a house .",
    "The bank lent the company five million dollars .",
    "He was the president of a bank in London .",
    "They robbed the bank and stole the cash .",
]
RIVER = [
    "They sat on the bank of the river and watched the water .",
    "The boat reached the left bank of the river at night .",
    "Trees grew along the bank of the stream .",
    "We walked along the muddy bank of the river .",
    "The village lies on the west bank of the river .",
    "The children played on the grassy bank beside the water .",
]


@pytest.fixture(scope="module")
def packaged() -> Elmo:
    return Elmo.from_pretrained()


@pytest.fixture
def corpus(tmp_path) -> list[str]:
    path = tmp_path / "banks.txt"
    path.write_text("".join(f"{sentence}\n" for sentence in [*MONEY, *RIVER]))
    return [str(path)]


def test_the_two_banks_are_more_similar_to_themselves_than_to_each_other(packaged):
    sentences = [each.replace("bank", "[bank]") for each in (*MONEY, *RIVER)]
    cosines = compare_words(packaged, sentences).cosines
    same = [cosines[a, b] for a in range(12) for b in range(12) if a < b and (a < 6) == (b < 6)]
    other = [cosines[a, b] for a in range(12) for b in range(12) if a < b and (a < 6) != (b < 6)]
    assert sum(same) / len(same) > sum(other) / len(other) + 0.1


@pytest.mark.parametrize(
    ("query", "right"),
    [("I need to go to the [bank] to get some money", MONEY), ("a walk along the [bank] of the river", RIVER)],
)
def test_most_neighbours_have_the_meaning_of_the_query(packaged, corpus, query, right):
    (found,) = find_neighbors(packaged, query, corpus, words="same", top_k=4).layers
    texts = [each.occurrence.sentence.text for each in found.neighbors]
    assert found.layer == "meaning" and sum(text in right for text in texts) >= 3


def test_senses_and_maps_separate_the_banks(packaged, corpus):
    occurrences, num_found = find_occurrences(corpus, "bank")
    found = induce_senses(packaged, "bank", occurrences, num_senses=2)
    numbers = found.numbers
    agreeing = sum(numbers[place] == numbers[0] for place in range(6))
    agreeing += sum(numbers[place] != numbers[0] for place in range(6, 12))
    assert num_found == 12 and max(agreeing, 12 - agreeing) >= 10
    points = map_word(packaged, "bank", occurrences).points
    distance = abs(points[:6, 0].mean() - points[6:, 0].mean())
    assert distance > points[:6, 0].std() and distance > points[6:, 0].std()
