"""The example programs run: layer 0 cannot separate senses, zh-small can."""

import re
import runpy
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_layer_0_is_the_same_in_every_sentence(monkeypatch, model, tmp_path, capsys):
    model.save_pretrained(tmp_path / "model")
    monkeypatch.setattr(sys, "argv", ["bank.py", str(tmp_path / "model")])
    runpy.run_path(str(EXAMPLES / "bank.py"), run_name="__main__")
    printed = capsys.readouterr().out
    static = re.findall(r"layer 0 \(no context\) +(\S+) +(\S+) +(\S+) +(\d) of (\d)", printed)
    assert [row[:4] for row in static] == [("1.000", "1.000", "0.000", "0")] * 3
    contextual = re.findall(r"layer 2 +(\S+) +(\S+) ", printed)
    assert len(contextual) == 3 and all(float(cosine) < 1 for row in contextual for cosine in row)


def test_the_chinese_example_finds_sentences_of_the_same_meaning(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["chinese.py"])
    runpy.run_path(str(EXAMPLES / "chinese.py"), run_name="__main__")
    counts = re.findall(r"词义相同，(\d) / 6", capsys.readouterr().out)
    assert len(counts) == 2 and all(int(count) >= 4 for count in counts)
