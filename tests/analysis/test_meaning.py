"""The included model separates senses in every kind of analysis."""

import pytest

from elmo import Elmo
from elmo.analysis import compare_words, find_neighbors, find_occurrences, induce_senses, map_senses
from elmo.analysis.occurrences import Occurrence, join_words

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


MORE_BANKS = [
    "My salary goes into the bank at the end of each month .",
    "A heron stood on the bank and waited for a fish .",
]
ONE_MEANING = {
    "doctor": [
        "The doctor examined the child and wrote a prescription .",
        "She wanted to become a doctor since she was ten .",
        "He called the doctor because the fever would not fall .",
        "The old doctor had treated three generations of the family .",
        "Ask your doctor before you take these pills .",
        "The doctor said that the leg was not broken .",
        "A young doctor works in the clinic on Mondays .",
        "My brother married a doctor from the city hospital .",
        "The doctor washed his hands and put on a mask .",
        "Nobody in the village could afford a doctor .",
        "We waited an hour for the doctor to arrive .",
        "The nurse told the doctor about the patient .",
        "Her father was a doctor and her mother a teacher .",
        "The ship had no doctor on board .",
    ],
    "village": [
        "The village lies in a valley between two hills .",
        "Everyone in the village knew the old teacher .",
        "They left the village after the harvest failed .",
        "A narrow road leads from the village to the coast .",
        "The village has a church and a small school .",
        "Soldiers burned the village during the war .",
        "She was born in a village near the border .",
        "The market of the village opens on Saturdays .",
        "Only forty people still live in the village .",
        "We walked through the village before sunrise .",
        "The river divides the village into two parts .",
        "He returned to his village as a rich man .",
        "The nearest village was ten miles away .",
        "Every house of the village has a garden .",
    ],
    "kitchen": [
        "She cooked soup in the kitchen .",
        "The kitchen smelled of fresh bread .",
        "He washed the plates in the kitchen after dinner .",
        "The door of the kitchen leads to the garden .",
        "They painted the kitchen yellow last summer .",
        "A cat slept under the table in the kitchen .",
        "My grandmother spent the whole morning in the kitchen .",
        "There is a new oven in the kitchen .",
        "The children ran into the kitchen for a glass of milk .",
        "We ate breakfast in the kitchen because it was cold .",
        "The cook shouted at the boys in the kitchen .",
        "Water dripped from the roof of the kitchen .",
        "The flat has one bedroom and a tiny kitchen .",
        "She left the knife in the kitchen .",
    ],
}


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
def test_most_neighbors_have_the_meaning_of_the_query(packaged, corpus, query, right):
    ((layer, neighbors),) = find_neighbors(packaged, query, corpus, words="same", top_k=4).layers.items()
    texts = [each.occurrence.sentence.text for each in neighbors]
    assert layer == "meaning" and sum(text in right for text in texts) >= 3


def test_senses_and_maps_separate_the_banks(packaged, corpus):
    occurrences, num_found = find_occurrences(corpus, "bank")
    found = induce_senses(packaged, "bank", occurrences, num_senses=2)
    numbers = found.numbers
    agreeing = sum(numbers[place] == numbers[0] for place in range(6))
    agreeing += sum(numbers[place] != numbers[0] for place in range(6, 12))
    assert num_found == 12 and max(agreeing, 12 - agreeing) >= 10
    points = map_senses(packaged, occurrences, layers=["meaning"]).points["meaning"]
    distance = abs(points[:6, 0].mean() - points[6:, 0].mean())
    assert distance > points[:6, 0].std() and distance > points[6:, 0].std()


def find_in(sentences, word):
    split = [sentence.split() for sentence in sentences]
    return [
        Occurrence(join_words(words, "text", number), words.index(word), words.index(word) + 1)
        for number, words in enumerate(split)
    ]


def test_the_two_senses_of_bank_are_detected_in_few_sentences(packaged):
    sentences = [*MONEY, MORE_BANKS[0], *RIVER, MORE_BANKS[1]]
    found = induce_senses(packaged, "bank", find_in(sentences, "bank"))
    assert len(found.senses) == 2
    agreeing = sum((number == found.numbers[0]) == (place < 7) for place, number in enumerate(found.numbers))
    assert agreeing >= 13


def test_most_words_with_one_meaning_are_not_split(packaged):
    counts = [len(induce_senses(packaged, word, find_in(ONE_MEANING[word], word)).senses) for word in ONE_MEANING]
    assert counts.count(1) >= len(counts) - 1 and max(counts) <= 2
