"""benchmarks/en_small.py calls existing commands and reports their results."""

import runpy
from pathlib import Path

from elmo.cli import main
from elmo.tasks.probes import ProbeResult, ProbeRow, Score

ROOT = Path(__file__).parents[2]
PROGRAM = runpy.run_path(str(ROOT / "benchmarks" / "en_small.py"))


def _probe(name, scores):
    rows = tuple(ProbeRow(kind, {name: Score(mean, 0.25)}) for kind, mean in scores.items())
    return ProbeResult("", "", rows, None, {}).to_dict()


def test_every_option_exists(tmp_path, capsys):
    commands = PROGRAM["list_commands"](tmp_path, tmp_path, "index.sense", 10)
    assert {command[0] for command in commands.values()} == {
        "similarity",
        "neighbors",
        "probe",
        "evaluate",
        "bench",
    }
    for command in commands.values():  # options are read before help is shown
        assert main([*PROGRAM["complete"](command, "model"), "--help"]) == 0, capsys.readouterr().err


def test_perplexity_is_reported_with_counts():
    found = {
        "num_sentences": 1000, "num_words": 20000, "unknown_rate": 0.0634, "perplexity": 123.44,
        "left_to_right_perplexity": 130.0, "right_to_left_perplexity": 117.0,
    }  # fmt: skip
    lines = PROGRAM["report"]({"books_sentences": found}).splitlines()
    assert lines[2:] == ["| books, held out | sentences: 1,000 | 20,000 | 6.3% | 123.4 | 130.0 | 117.0 |"]


def test_probes_stand_side_by_side():
    found = {
        "tagging": _probe("tag", {"most frequent": 13.0, "layer 0": 80.0, "layer 1": 90.0}),
        "senses": _probe("senses", {"first sense": 65.0, "layer 0": 60.0, "layer 1": 66.0}),
    }
    assert PROGRAM["report"](found).splitlines()[2:] == [
        "| most frequent | 13.0 ± 0.2 |  |",
        "| first sense |  | 65.0 ± 0.2 |",
        "| layer 0 | 80.0 ± 0.2 | 60.0 ± 0.2 |",
        "| layer 1 | 90.0 ± 0.2 | 66.0 ± 0.2 |",
    ]


def test_banks_and_neighbors_are_shown():
    pairs = [{"a": a, "b": b, "cosine": 0.5, "cosine_by_layer": [1.0, 0.25]} for a, b in ((0, 1), (0, 2), (1, 2))]
    neighbor = {"cosine": 0.876, "text": f"{'x' * 60} a Play | end"}
    found = {
        "banks": {"pairs": pairs},
        "banks_by_layer": {"pairs": pairs},
        "play_stage": {
            "query": {"words": ["a", "play"]},
            "num_occurrences": 9000,
            "static": [{"word": "plays"}, {"word": "played"}],
            "layers": [{"layer": 1, "neighbors": [neighbor]}],
        },
    }
    text = PROGRAM["report"](found)
    assert "| money ~ river | 0.500 | 1.000 | 0.250 |" in text
    assert "| layer 0 | plays, played |" in text
    assert f"| layer 1, 0.88 | …{'x' * 45} a **Play**   end |" in text
