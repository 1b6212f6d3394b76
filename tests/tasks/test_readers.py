"""Every format is detected, read, and written with predictions."""

import gzip
import json
import lzma
from types import SimpleNamespace

import pytest

from elmo import InputError
from elmo.tasks.readers import open_reader, read_examples
from elmo.tasks.settings import ReadSettings
from tests.tasks.toys import write_toy

CONLLU = """# sent_id = 1
1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tdo\tdo\tAUX\tVBP\t_\t0\troot\t_\t_
2\tn't\tnot\tPART\tRB\t_\t1\tadvmod\t_\t_
2.1\tgo\tgo\tVERB\tVB\t_\t_\t_\t_\t_

1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_
"""


def read(path, family, labelled=True, **settings):
    reader = open_reader(str(path), family, ReadSettings(**settings), labelled=labelled)
    return reader, list(reader)


def written(path, content):
    path.write_text(content, encoding="utf-8")
    return path


def rewrite(reader, examples, predictions):
    return "".join(reader.write(zip(examples, predictions, strict=True)))


def test_conllu_words_leave_out_ranges_and_empty_nodes_and_writing_keeps_them(tmp_path):
    path = written(tmp_path / "a.conllu", CONLLU)
    reader, examples = read(path, "tagging")
    assert [example.words for example in examples] == [("do", "n't"), ("Yes",)]
    assert [example.tags for example in examples] == [("AUX", "PART"), ("INTJ",)]
    assert [example.place.line for example in examples] == [1, 7]
    reader, examples = read(path, "tagging", columns={"tag": "xpos"})
    assert examples[0].tags == ("VBP", "RB")
    text = rewrite(reader, examples, [SimpleNamespace(tags=("X", "Y")), SimpleNamespace(tags=("Z",))])
    expected = CONLLU.replace("VBP", "X").replace("\tRB\t", "\tY\t").replace("UH", "Z")
    assert text == expected + "\n"


def test_conll_may_be_separated_by_spaces_and_have_document_lines_and_hashtags(tmp_path):
    path = written(tmp_path / "a.conll", "-DOCSTART- -X- O\n\nEU NNP B-ORG\n#Brexit NN O\n\n\nyes UH O\n")
    _, examples = read(path, "tagging")
    assert [example.words for example in examples] == [("EU", "#Brexit"), ("yes",)]
    assert examples[0].tags == ("B-ORG", "O")


def test_words_alone_get_a_column_of_tags(tmp_path):
    reader, examples = read(written(tmp_path / "a.conll", "a\nb\n\nc\n"), "tagging", labelled=False)
    text = rewrite(reader, examples, [SimpleNamespace(tags=("X", "Y")), SimpleNamespace(tags=("Z",))])
    assert text == "a X\nb Y\n\nc Z\n\n"


def test_a_csv_is_read_by_its_header_and_written_with_its_quotes(tmp_path):
    path = written(tmp_path / "a.csv", 'id,sentiment,review\n1,pos,"good, ""very""\nindeed"\n2,neg,bad\n')
    reader, examples = read(path, "classification")
    assert [(example.words, example.label) for example in examples] == [
        (("good", ",", '"', "very", '"', "indeed"), "pos"),
        (("bad",), "neg"),
    ]
    assert [example.place.line for example in examples] == [2, 4]
    text = rewrite(reader, examples, [SimpleNamespace(label="A"), SimpleNamespace(label="B")])
    assert text == 'id,sentiment,review\n1,A,"good, ""very""\nindeed"\n2,B,bad\n'


def test_a_table_without_usual_names_asks_for_its_columns(tmp_path):
    path = written(tmp_path / "a.csv", "A plane lands.,An air plane is landing.,4.5\nA man.,A dog.,0.0\n")
    with pytest.raises(InputError, match="a.csv: no column has a usual name for the first"):
        open_reader(str(path), "pairs", ReadSettings())
    columns = {"first": "1", "second": "2", "label": "3"}
    opened = open_reader(str(path), "pairs", ReadSettings(columns=columns))
    assert opened.settings.columns == columns and opened.settings.header is False
    assert [example.target for example in opened] == [4.5, 0.0]


def test_semicolons_are_detected_and_a_named_column_implies_a_header(tmp_path):
    path = written(tmp_path / "a.csv", 'remark;verdict\n"one;\n\n,more, and more";yes\n' * 9)
    settings = ReadSettings(text_column="remark", label_column="verdict")
    reader = open_reader(str(path), "classification", settings)
    assert reader.settings.columns == {"text": "remark", "label": "verdict"} and reader.settings.header is True
    assert next(iter(reader)).label == "yes"


def columns_of(path, family="classification", **settings):
    return dict(open_reader(str(path), family, ReadSettings(**settings)).settings.columns)


ROWS = [("I liked it very much", "pos"), ("it was awful to see", "neg"), ("not for me at all", "neg")] * 9


@pytest.mark.parametrize(
    ("header", "row", "settings", "expected"),
    [
        (",text,label", "7,{text},{label}", {}, {"text": "text", "label": "label"}),  # as pandas writes it
        ("Comment,Is it good?", "{text},{label}", {"label_column": "2"}, {"text": "Comment", "label": "Is it good?"}),
        ("said,Mood", "{text},{label}", {"text_column": "SAID", "label_column": "mood"},
         {"text": "said", "label": "Mood"}),
        ("said,mood", "{text},{label}", {"text_column": "1", "label_column": "2", "header": True},
         {"text": "said", "label": "mood"}),
        ("joy,yay", "{label},{text}", {"text_column": "2", "label_column": "1"}, {"text": "2", "label": "1"}),
    ],
)  # fmt: skip
def test_a_first_row_with_a_usual_or_named_column_is_a_header(tmp_path, header, row, settings, expected):
    lines = [header, *(row.format(text=text, label=label) for text, label in ROWS)]
    path = written(tmp_path / "a.csv", "\n".join(lines) + "\n")
    assert columns_of(path, **settings) == expected
    assert len(read(path, "classification", **settings)[1]) == len(ROWS) + (expected["label"] == "1")


def test_the_header_setting_is_inherited_by_other_files(tmp_path):
    path = written(tmp_path / "a.csv", "".join(f"{label},{text}\n" for text, label in ROWS))
    settings = open_reader(str(path), "classification", ReadSettings(text_column="2", label_column="1")).settings
    assert settings.header is False
    alone = written(tmp_path / "b.csv", "neg,awful\n")
    reader = open_reader(str(alone), "classification", settings, labelled=False)
    assert [example.words for example in reader] == [("awful",)]


def test_columns_can_be_numbers_and_have_one_role_only(tmp_path):
    path = written(tmp_path / "a.csv", "id,said,mood\n1,so it goes,x\n")
    given = {"text": "2", "label": "3"}
    assert columns_of(path, columns=given) == {"text": "said", "label": "mood"}
    with pytest.raises(InputError, match="text, label cannot all be read from said, said"):
        read(path, "classification", columns={"text": "said", "label": "said"})


def test_answers_are_written_in_the_form_they_had(tmp_path):
    row = {"question": "who", "context": "it was Ann", "answers": {"text": ["Ann"], "answer_start": [7]}}
    path = written(tmp_path / "a.jsonl", json.dumps(row) + "\n")
    for text, expected in (("it", {"text": ["it"], "answer_start": [0]}), ("", {"text": [], "answer_start": []})):
        reader, examples = read(path, "question_answering")
        output = rewrite(reader, examples, [SimpleNamespace(text=text, start=0)])
        assert json.loads(output)["answers"] == expected


def test_tags_separated_by_spaces_split_words_at_spaces(tmp_path):
    path = written(tmp_path / "a.csv", "sentence,tags\nU.S. firms ca n't buy Smith's .,B O O O O B O\n")
    opened = open_reader(str(path), "tagging", ReadSettings())
    assert opened.settings.split_on_spaces
    (example,) = opened
    assert example.words == ("U.S.", "firms", "ca", "n't", "buy", "Smith's", ".")


def test_pairs_without_a_gold_label_are_left_out(tmp_path):
    rows = [{"premise": "a b", "hypothesis": "c", "label": label} for label in ("yes", "no", "-")]
    path = written(tmp_path / "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    examples, _ = read_examples(str(path), "pairs", ReadSettings())
    assert [example.target for example in examples] == ["yes", "no"]


def test_the_requested_target_is_used(tmp_path):
    row = {"sentence_A": "a", "sentence_B": "b", "relatedness_score": 4.5, "entailment_judgment": "NEUTRAL"}
    path = written(tmp_path / "a.jsonl", json.dumps(row) + "\n")
    assert [example.target for example in read(path, "pairs")[1]] == ["NEUTRAL"]
    assert [example.target for example in read(path, "pairs", pair_target="score")[1]] == [4.5]


def test_json_lines_may_hold_words_and_tags(tmp_path):
    path = written(tmp_path / "a.jsonl", '{"tokens": ["a", "b"], "ner_tags": ["O", "B-x"]}\n')
    reader, examples = read(path, "tagging")
    assert (examples[0].words, examples[0].tags) == (("a", "b"), ("O", "B-x"))
    assert json.loads(rewrite(reader, examples, [SimpleNamespace(tags=("1", "2"))]))["ner_tags"] == ["1", "2"]


def test_a_json_array_is_read_and_written_as_one(tmp_path):
    path = written(tmp_path / "a.json", '[\n {"text": "x y", "label": "1"},\n {"text": "z", "label": "2"}\n]\n')
    reader, examples = read(path, "classification")
    assert [str(example.place) for example in examples] == [f"{path}, row 1", f"{path}, row 2"]
    text = rewrite(reader, examples, [SimpleNamespace(label="A"), SimpleNamespace(label="B")])
    assert [row["label"] for row in json.loads(text)] == ["A", "B"]


def test_an_unlabelled_table_gets_a_column(tmp_path):
    reader, examples = read(written(tmp_path / "a.csv", "id,text\n1,so it goes\n"), "classification", labelled=False)
    assert rewrite(reader, examples, [SimpleNamespace(label="A")]) == "id,text,label\n1,so it goes,A\n"


def test_trees_give_every_phrase_its_label(tmp_path):
    reader, (example,) = read(written(tmp_path / "a.ptb", "(3 (2 It) (4 (2 's) (4 -LRB-lovely)))\n"), "classification")
    assert (example.words, example.label) == (("It", "'s", "-LRB-lovely"), "3")
    assert set(example.phrases) == {
        ((0, 1), "2"), ((1, 2), "2"), ((2, 3), "4"), ((1, 3), "4"), ((0, 3), "3"),
    }  # fmt: skip
    assert rewrite(reader, [example], [SimpleNamespace(label="0")]).startswith("(0 (2 It)")


def test_relations_have_two_spans_in_the_words(tmp_path):
    content = '8\t"The <e1>big box</e1> of(<e2>nails</e2>)."\nContent(e2,e1)\nComment: x\n\n'
    reader, (example,) = read(written(tmp_path / "a.txt", content), "relations")
    assert example.words[slice(*example.first)] == ("big", "box")
    assert example.words[slice(*example.second)] == ("nails",)
    assert rewrite(reader, [example], [SimpleNamespace(label="Other")]) == content.replace("Content(e2,e1)", "Other")


def test_answers_of_squad_are_words_of_the_passage_and_are_written_in_place(tmp_path):
    path = write_toy("question_answering", tmp_path, size=3)
    reader, examples = read(path, "question_answering")
    for example in examples:
        assert example.passage_words[slice(*example.answer_span)] == example.answers
    assert examples[0].place.line < examples[1].place.line
    predictions = [SimpleNamespace(text="train", start=7, probability=1.0)] * 3
    old, new = json.loads(path.read_text()), json.loads(rewrite(reader, examples, predictions))
    for paragraph in old["data"][0]["paragraphs"]:
        paragraph["qas"][0]["answers"] = [{"text": "train", "answer_start": 7}]
    assert new == old


def test_answers_can_be_in_a_table(tmp_path):
    path = written(tmp_path / "a.csv", "question,context,answer\nWho went ?,Ann went to Rome .,Ann\n")
    _, (example,) = read(path, "question_answering")
    assert example.answer_span == (0, 1)
    rows = {"question": "Where ?", "context": "to Rome, Rome", "answers": {"text": ["Rome"], "answer_start": [9]}}
    _, (example,) = read(written(tmp_path / "a.jsonl", json.dumps(rows)), "question_answering")
    assert example.answer_span == (3, 4)


def test_keys_of_senses_are_read_from_the_key_file(tmp_path):
    path = write_toy("senses", tmp_path, size=2)
    _, examples = read(path, "senses")
    target = examples[0].targets[0]
    assert (target.lemma, target.pos, target.span) == ("bank", "NOUN", (2, 3))
    assert target.keys and target.keys[0].startswith("bank%1:")
    (tmp_path / "x.data.xml.xz").write_bytes(lzma.compress(path.read_bytes()))
    (tmp_path / "x.gold.key.txt.xz").write_bytes(lzma.compress((tmp_path / "train.gold.key.txt").read_bytes()))
    reader, packed = read(tmp_path / "x.data.xml.xz", "senses")
    assert [example.targets for example in packed] == [example.targets for example in examples]
    assert rewrite(reader, packed[:1], [SimpleNamespace(keys=("k%1",))]) == "s000.t0 k%1\n"


@pytest.mark.parametrize(
    ("family", "name", "content", "message"),
    [
        ("tagging", "a.conll", "a\tO\nb\tO\nc\n", "line 3: 1 column(s) in 'c', but the first word has 2"),
        ("tagging", "a.conll", "a\tO\nb\t\n", "line 2: the tag is empty"),
        ("tagging", "a.conll", "a\nb\n", "has 1 column(s), but the tag should be in column 2"),
        ("tagging", "a.conll", "\n\n", "has no words; a file in CoNLL format"),
        ("tagging", "a.jsonl", '{"tokens": ["a", "b"], "tags": ["O"]}', "line 1: 1 tags for 2 words"),
        ("classification", "a.csv", "text,label\na b c,x\nd\n", "line 3: 1 columns, but the first row has 2"),
        ("classification", "a.csv", "text,label\na b c,x\nd e f,\n", "line 3: the label is ''"),
        ("classification", "a.jsonl", '{"text": "a", "label": "x"}\n{"text"\n', "line 2, is not JSON"),
        ("classification", "a.jsonl", '{"text": "a", "label": 1}\n{"label": 1}', "line 2: the text ('text')"),
        ("classification", "a.json", '[{"text": "a", "label": 1},\n', "line 1, is not a JSON array"),
        ("classification", "a.ptb", "(3 (2 It) (4 's)\n", " is not a tree such as"),
        ("classification", "a.txt", "(3 It)", "has no extension that determines its format, but classification"),
        ("classification", "a.csv", "", "is empty"),
        ("pairs", "a.csv", "sentence1,sentence2\na b c,d e f\n", "no column has a usual name for the label"),
        ("pairs", "a.csv", "s1,s2,score\nmore of it,and this,high\n", "line 2: the score is 'high'"),
        ("relations", "a.txt", '1\t"the <e1>cat</e1> sat"\nOther\n\n', "line 1: the marks are <e1>, </e1>"),
        ("question_answering", "a.json", '{"data": [', "line 1: not valid JSON"),
        (
            "question_answering", "a.jsonl", '{"question": "q", "context": "c", "answer": "z"}',
            "'z' is not in the passage",
        ),
        ("senses", "a.data.xml", "<corpus>\n<sentence>\n</corpus>\n", "has no key file"),
    ],
)  # fmt: skip
def test_faults_name_file_and_line(tmp_path, family, name, content, message):
    path = written(tmp_path / name, content)
    with pytest.raises(InputError) as caught:
        settings = {"pair_target": "score"} if "score" in message else {}
        read(path, family, **settings)
    assert message in str(caught.value)
    assert name in str(caught.value)


def test_an_answer_outside_the_passage_names_its_question(tmp_path):
    path = write_toy("question_answering", tmp_path, size=2)
    content = json.loads(path.read_text())
    content["data"][0]["paragraphs"][1]["qas"][0]["answers"][0]["answer_start"] = 999
    path.write_text(json.dumps(content, indent=1))
    with pytest.raises(InputError, match=r"question 2: the answer .* is not in the passage at character 999"):
        read(path, "question_answering")


def test_a_format_of_another_family_is_rejected(tmp_path):
    path = written(tmp_path / "a.conllu", CONLLU)
    with pytest.raises(InputError, match="is read as 'conllu', but pairs reads csv, tsv, jsonl, json"):
        read(path, "pairs")


def test_a_damaged_archive_is_reported(tmp_path):
    content = bytearray(gzip.compress(b"a\tO\n" * 5000))
    content[20] ^= 255
    path = tmp_path / "a.conll.gz"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a.conll.gz is truncated or damaged"):
        read(path, "tagging")


@pytest.mark.parametrize("role", ["word", "tag"])
def test_columns_are_counted_from_one(tmp_path, role):
    path = written(tmp_path / "a.conll", "a\tO\n")
    with pytest.raises(InputError, match=f"--column {role}=0 is not the number of a column, from 1"):
        read(path, "tagging", columns={role: "0"})


def test_an_unknown_role_is_rejected(tmp_path):
    path = written(tmp_path / "a.csv", "text,label\nso it goes,x\n")
    with pytest.raises(InputError, match="--column tag=… is not a role"):
        read(path, "classification", columns={"tag": "1"})
    with pytest.raises(InputError, match="has no column 'stars' for the label"):
        read(path, "classification", columns={"label": "stars"})


def tagged(path, **settings):
    """What a CoNLL file has: the words and tags of each sentence."""
    return [list(zip(example.words, example.tags, strict=True)) for example in read(path, "tagging", **settings)[1]]


def test_comments_of_conll_are_not_words_whatever_their_form(tmp_path):
    multiconer = "# id 0000\tdomain=en\nthe _ _ O\nface _ _ B-X\n\n# id 0001\tdomain=en\nand _ _ O\n"
    path = written(tmp_path / "a.conll", multiconer)
    assert tagged(path) == [[("the", "O"), ("face", "B-X")], [("and", "O")]]
    assert [example.place.line for example in read(path, "tagging")[1]] == [1, 5]
    path = written(tmp_path / "b.conll", multiconer.replace(" _ _ ", "\t"))  # two cells in the comments as well
    assert tagged(path) == [[("the", "O"), ("face", "B-X")], [("and", "O")]]
    document = "#begin document (bc/cctv); part 000\nbc 0 In IN\nbc 1 it PRP\n\n#end document\n"
    path = written(tmp_path / "c.conll", document + document)
    assert tagged(path, columns={"word": "3"}) == [[("In", "IN"), ("it", "PRP")]] * 2


@pytest.mark.parametrize("separator", [" ", "\t"])
def test_hash_signs_and_hashtags_of_conll_are_words(tmp_path, separator):
    rows = [["# O", "1 B-x"], ["#cool O", "# O", "#begin O"], ["#end O", "#1 O", "# O"]]
    content = "\n".join("".join(f"{row}\n" for row in sentence) for sentence in rows).replace(" ", separator)
    path = written(tmp_path / "a.conll", content)
    assert tagged(path) == [[tuple(row.split()) for row in sentence] for sentence in rows]


def test_a_no_break_space_of_conll_is_inside_a_word(tmp_path):
    path = written(tmp_path / "a.conll", "10\u00a0000 NUM O\nmen  NOUN\tO \n")
    assert tagged(path) == [[("10\u00a0000", "O"), ("men", "O")]]


def test_lines_of_conll_without_words_are_written_in_their_place(tmp_path):
    content = (
        "-DOCSTART- -X- O\n\nEU NNP B-ORG\n\n-DOCSTART- -X- O\n\n# text = of its own\n\n"
        "# id 1 x y\nyes UH O\n\n#end document\n"
    )
    reader, examples = read(written(tmp_path / "a.conll", content), "tagging", labelled=False, columns={"tag": "3"})
    assert [example.words for example in examples] == [("EU",), ("yes",)]
    assert [example.place.line for example in examples] == [3, 9]
    predictions = [SimpleNamespace(tags=("X",)), SimpleNamespace(tags=("Y",))]
    assert rewrite(reader, examples, predictions) == content.replace("B-ORG", "X").replace("UH O", "UH Y")


def test_questions_without_an_answer_are_examples_and_are_written_in_the_form_of_squad_2(tmp_path):
    qas = [
        {"id": "a", "question": "Who ?", "answers": [{"text": "Ann", "answer_start": 0}], "is_impossible": False},
        {"id": "b", "question": "Why ?", "answers": [], "is_impossible": True, "plausible_answers": []},
        {"id": "c", "question": "How ?", "answers": []},
        {"id": "d", "question": "When ?", "is_impossible": True},
    ]
    content = {"version": "v2.0", "data": [{"title": "t", "paragraphs": [{"context": "Ann went .", "qas": qas}]}]}
    reader, examples = read(written(tmp_path / "a.json", json.dumps(content)), "question_answering")
    assert [(example.answers, example.answer_span) for example in examples] == [
        (("Ann",), (0, 1)),
        *[((), None)] * 3,
    ]
    none = SimpleNamespace(text="", start=0, probability=0.5)
    went = SimpleNamespace(text="went", start=4, probability=0.5)
    new = json.loads(rewrite(reader, examples, [none, went, none, none]))
    answers = [{"text": "went", "answer_start": 4}]
    assert new["data"][0]["paragraphs"][0]["qas"] == [
        {**qas[0], "answers": [], "is_impossible": True},
        {**qas[1], "answers": answers, "is_impossible": False},
        {**qas[2], "answers": []},
        {**qas[3], "answers": []},
    ]


@pytest.mark.parametrize("answers", [{"text": [], "answer_start": []}, {"text": [""], "answer_start": [-1]}, [], ""])
def test_a_table_may_have_questions_without_an_answer(tmp_path, answers):
    rows = [
        {"question": "Who ?", "context": "Ann went .", "answers": {"text": ["Ann"], "answer_start": [0]}},
        {"question": "Why ?", "context": "Ann went .", "answers": answers},
    ]
    path = written(tmp_path / "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert [example.answers for example in read(path, "question_answering")[1]] == [("Ann",), ()]
    path = written(tmp_path / "b.jsonl", '{"question": "Why ?", "context": "Ann went .", "answers": null}\n')
    with pytest.raises(InputError, match=r"line 1: .*answer"):
        read(path, "question_answering")


def test_an_unclosed_quote_is_reported_with_its_line(tmp_path):
    path = written(tmp_path / "a.csv", 'text,label\none,good\n"two,bad\nthree,good\n')
    with pytest.raises(InputError, match=r"a.csv, line 3, is not a row of a table .unexpected end of data.: a quote"):
        read(path, "classification")


@pytest.mark.parametrize(("rest", "line"), [("] more", 1), ('\n{"text": "b", "label": "y"}]', 2), (",", 1)])
def test_a_json_array_is_checked_to_the_end_of_the_file(tmp_path, rest, line):
    path = written(tmp_path / "a.json", '[{"text": "a", "label": "x"}' + rest)
    with pytest.raises(InputError, match=f"line {line}, is not a JSON array"):
        read(path, "classification")


def test_numbered_words_are_read_by_the_numbers_of_their_columns(tmp_path):
    file = tmp_path / "train.iob2"
    file.write_text("# sent_id = 1\n1\t我\tO\t-\t-\n2\t爱\tO\t-\t-\n3\t北京\tB-LOC\t-\tann\n\n1\t好\tO\t-\t-\n")
    examples, read = read_examples(str(file), "tagging", ReadSettings(text_column="2", label_column="3"))
    assert [example.words for example in examples] == [("我", "爱", "北京"), ("好",)]
    assert [example.tags for example in examples] == [("O", "O", "B-LOC"), ("O",)]
    assert dict(read.columns) == {"word": "2", "tag": "3"}
