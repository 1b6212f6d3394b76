"""Texts of a task are tokenized like its model: kana and Thai into letters if the model does so."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from elmo import Elmo, InputError, tasks
from elmo.cli import main
from elmo.config import EncoderConfig, ModelConfig, TokenizationConfig, WordConfig
from elmo.tasks import probe
from elmo.tasks.examples import build_example
from elmo.tasks.readers import open_reader
from elmo.tasks.settings import ReadSettings
from tests.tasks.toys import small


@dataclass(frozen=True)
class Language:
    """A script without spaces: places whose names have the same length, and the words around them."""

    scripts: tuple[str, ...]
    subject: tuple[str, ...]
    places: tuple[tuple[str, ...], ...]
    verb: tuple[str, ...]
    question: str
    num_question_words: int

    def sentence(self, number: int) -> tuple[str, ...]:
        return (*self.subject, *self.place(number), *self.verb)

    def place(self, number: int) -> tuple[str, ...]:
        return self.places[number % len(self.places)]

    @property
    def unseen(self) -> tuple[str, ...]:
        """The letters of a sentence that no file has, because of its second subject."""
        return (*self.subject, *self.sentence(1))


LANGUAGES = {
    "Japanese": Language(
        ("Han", "Hiragana", "Katakana"), tuple("わたしは"), (tuple("パリ"), tuple("ローマ")), tuple("へいきます"),
        "どこですか", 5,
    ),
    "Thai": Language(
        ("Thai",), ("ฉั", "น", "ไ", "ป"), (("ป", "า", "รี", "ส"), ("โ", "ร", "ม")), ("วั", "น", "นี้"),
        "ที่ไหน", 4,
    ),
}  # fmt: skip


def save_model(folder: Path, tokenization: TokenizationConfig, letters: set[str]) -> Path:
    vocabulary = ["<S>", "</S>", "<UNK>", *sorted(letters)]
    config = ModelConfig(
        encoder=EncoderConfig(num_layers=1, cell_dim=8, output_dim=4),
        characters=None,
        words=WordConfig(len(vocabulary), 6),
        tokenization=tokenization,
    )
    Elmo.from_config(config, vocabulary=vocabulary).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", params=LANGUAGES)
def language(request) -> Language:
    return LANGUAGES[request.param]


@pytest.fixture(scope="module")
def bilm(language, tmp_path_factory) -> Path:
    letters = {letter for number in range(2) for letter in language.sentence(number)}
    folder = tmp_path_factory.mktemp("bilm") / "model"
    return save_model(folder, TokenizationConfig("characters", language.scripts), letters)


def write_examples(language: Language, family: str, folder: Path) -> Path:
    sentences = [language.sentence(number) for number in range(24)]
    if family == "tagging":
        rows = []
        for number, sentence in enumerate(sentences):
            inside = ["I-place"] * (len(language.place(number)) - 1)
            tags = [*["O"] * len(language.subject), "B-place", *inside, *["O"] * len(language.verb)]
            rows.append("".join(f"{letter}\t{tag}\n" for letter, tag in zip(sentence, tags, strict=True)))
        path, content = folder / "train.conll", "\n".join(rows)
    elif family == "classification":
        rows = [f"{''.join(sentence)},{'odd' if n % 2 else 'even'}\n" for n, sentence in enumerate(sentences)]
        path, content = folder / "train.csv", "text,label\n" + "".join(rows)
    else:
        paragraphs = []
        for number, sentence in enumerate(sentences):
            passage, place = "".join(sentence), "".join(language.place(number))
            answers = [{"text": place, "answer_start": passage.index(place)}]
            paragraphs.append(
                {
                    "context": passage,
                    "qas": [{"id": f"q{number}", "question": language.question, "answers": answers}],
                }
            )
        path, content = folder / "train.json", json.dumps({"data": [{"paragraphs": paragraphs}]})
    path.write_text(content, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def trained(language, bilm, tmp_path_factory):
    """Return the folder of a task trained on a family's examples, made once per language."""
    made: dict[str, Path] = {}

    def get(family: str) -> Path:
        if family not in made:
            folder = tmp_path_factory.mktemp(family)
            train = write_examples(language, family, folder)
            settings = small(family, fit__num_epochs=20, fit__patience=20)
            options = tasks.TaskOptions(cache_folder=str(folder / "cache"))
            made[family] = tasks.train(
                train,
                kind=family,
                dev=train,
                output=folder / "task",
                model=bilm,
                settings=settings,
                options=options,
            ).folder
        return made[family]

    return get


def read_record(task: Path, name: str) -> dict:
    return json.loads((task / name).read_text(encoding="utf-8"))


def test_the_scripts_of_the_model_are_recorded(language, trained):
    task = trained("tagging")
    assert read_record(task, "task.json")["read"]["scripts"] == list(language.scripts)
    assert read_record(task, "training/run.json")["inputs"]["read"]["scripts"] == list(language.scripts)
    assert tasks.load(task).description.read.scripts == language.scripts


def test_a_word_level_model_keeps_the_default_scripts(tmp_path):
    model = save_model(tmp_path / "words", TokenizationConfig("words", ("Thai",)), {"วันนี้ดี", "วันนี้ร้อน"})
    train = tmp_path / "train.csv"
    train.write_text("text,label\n" + "วันนี้ดี,good\nวันนี้ร้อน,bad\n" * 5, encoding="utf-8")
    settings = small("classification", fit__num_epochs=1)
    task = tasks.train(train, kind="classification", output=tmp_path / "task", model=model, settings=settings).load()
    assert task.description.read.scripts == ("Han",)
    assert [word.text for word in task.tokenize("วันนี้ 你好")] == ["วันนี้", "你", "好"]


def test_a_task_without_elmo_uses_the_tokenization_of_the_named_model(bilm, language, tmp_path):
    train = write_examples(language, "classification", tmp_path)
    settings = small("classification", fit__num_epochs=1, elmo__where="none")

    def first_words(name: str, model: Path | None) -> tuple[str, ...]:
        result = tasks.train(train, kind="classification", output=tmp_path / name, model=model, settings=settings)
        return result.load().read_examples(train)[0].words

    assert first_words("named", bilm) == language.sentence(0)
    assert first_words("unnamed", None) == ("".join(language.sentence(0)),)


def test_plain_text_is_tagged_letter_by_letter(language, trained, tmp_path, capsys):
    text = "".join(language.unseen)
    start = 2 * len(language.subject)
    place = ("place", start, start + len(language.place(1)))
    task = tasks.load(trained("tagging"))
    (prediction,) = task.predict([text])
    assert prediction.words == language.unseen and prediction.spans == [place]
    assert [text[word.start : word.end] for word in task.tokenize(text)] == list(language.unseen)

    (tmp_path / "lines").write_text(f"{text}\n{text}\n", encoding="utf-8")  # no suffix tells what the lines are
    for arguments in (["--text", text], [str(tmp_path / "lines")]):
        assert main(["task", "predict", str(trained("tagging")), *arguments]) == 0
        rows = [tuple(row.split("\t")) for row in capsys.readouterr().out.splitlines()]
        assert rows[: len(prediction.words)] == list(zip(prediction.words, prediction.tags, strict=True))


def test_a_table_of_texts_is_read_letter_by_letter(language, trained, tmp_path):
    task = tasks.load(trained("classification"))
    table = tmp_path / "test.csv"
    table.write_text(f"text,label\n{''.join(language.unseen)},odd\n", encoding="utf-8")
    (example,) = task.read_examples(table)
    assert example.words == language.unseen
    assert task.evaluate(table)["accuracy"] == 100
    assert task.read_items(["".join(language.unseen)])[0].words == language.unseen


def test_an_answer_is_found_inside_a_run_of_letters(language, trained, tmp_path, capsys):
    place, passage = "".join(language.place(1)), "".join(language.unseen)
    folder = trained("question_answering")
    task = tasks.load(folder)
    (prediction,) = task.predict([(language.question, passage)])
    assert place in prediction.text and prediction.text != passage  # the network is tiny; the place is what matters
    assert prediction.start == passage.index(prediction.text)
    (example,) = task.read_items([(language.question, passage)])
    assert example.passage_words == language.unseen and len(example.words) == language.num_question_words

    squad = write_examples(language, "question_answering", tmp_path)
    assert task.read_examples(squad)[0].passage_words == language.sentence(0)
    table = tmp_path / "table.jsonl"
    row = {"question": language.question, "passage": passage, "answer": place}
    table.write_text(json.dumps(row), encoding="utf-8")
    (example,) = task.read_examples(table)
    assert example.passage_words[slice(*example.answer_span)] == language.place(1)

    assert main(["task", "predict", str(folder), "--text", f"{language.question} ||| {passage}"]) == 0
    assert capsys.readouterr().out.split("\t")[0] == prediction.text


def test_marked_names_and_pairs_are_read_letter_by_letter(language, tmp_path):
    one, other = ("".join(language.place(number)) for number in range(2))
    marked = f"{''.join(language.subject)}<e1>{one}</e1><e2>{other}</e2>"
    words = (*language.subject, *language.place(0), *language.place(1))
    (tmp_path / "marked.csv").write_text(f"text,label\n{marked},r\n", encoding="utf-8")
    (tmp_path / "marked.txt").write_text(f'1\t"{marked}"\nr\n\n', encoding="utf-8")
    (tmp_path / "pairs.csv").write_text(f"first,second,label\n{one},{other},same\n", encoding="utf-8")

    def read(family: str, name: str) -> list:
        return list(open_reader(str(tmp_path / name), family, ReadSettings(scripts=language.scripts)))

    for example in (*read("relations", "marked.csv"), *read("relations", "marked.txt")):
        assert example.words == words
        assert example.words[slice(*example.first)] == language.place(0)
        assert example.words[slice(*example.second)] == language.place(1)
    (pair,) = read("pairs", "pairs.csv")
    assert (pair.first, pair.second) == (language.place(0), language.place(1))
    item = (one, [(0, len(language.place(0)), one, "NOUN")])
    tokenizer = ReadSettings(scripts=language.scripts).tokenizer("senses")
    assert build_example("senses", item, tokenizer).words == language.place(0)


@pytest.mark.parametrize("family", ["tagging", "classification", "question_answering"])
def test_a_copied_task_splits_text_without_its_model_in_its_place(language, trained, bilm, family, tmp_path):
    shutil.copytree(trained(family), tmp_path / "task")
    shutil.copytree(bilm, tmp_path / "model")
    copy, original = tasks.load(tmp_path / "task", bilm=tmp_path / "model"), tasks.load(trained(family))
    text = "".join(language.unseen)
    item = (language.question, text) if family == "question_answering" else text
    assert copy.texts(copy.read_items([item])[0])[-1] == language.unseen
    assert copy.predict([item]) == original.predict([item])


def test_a_comparison_is_resumed_with_the_same_scripts_only(language, bilm, tmp_path):
    train = write_examples(language, "classification", tmp_path)
    once = tasks.ComparisonSettings(("baseline", "top"), (0,))

    def compare() -> list:
        settings = small("classification", fit__num_epochs=1)
        return tasks.compare(
            train, kind="classification", output=tmp_path / "table", model=bilm, settings=settings, comparison=once
        )

    assert compare() == compare()
    record = read_record(tmp_path / "table", "compare.json")
    record["inputs"]["read"]["scripts"] = ["Han"]
    (tmp_path / "table" / "compare.json").write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(InputError, match="holds a comparison with other inputs"):
        compare()


@pytest.mark.parametrize(
    ("family", "words"),
    [
        ("tagging", ["don't", "go."]),
        ("senses", ["don't", "go."]),
        ("question_answering", ["don", "'t", "go", "."]),
        ("relations", ["don", "'t", "go", "."]),
    ],
)
def test_split_on_spaces_does_not_apply_to_answers_and_marked_spans(family, words):
    tokenizer = ReadSettings(split_on_spaces=True).tokenizer(family)
    assert [word.text for word in tokenizer("don't go.")] == words


def test_a_probe_reads_texts_as_the_model_does(language, bilm, tmp_path):
    path = str(write_examples(language, "classification", tmp_path))
    result = probe(Elmo.from_pretrained(bilm), "classification", train=path, test=path, seeds=(0,))
    num_letters = sum(len(language.sentence(number)) for number in range(24))
    assert result.counts["test_words"] == num_letters
