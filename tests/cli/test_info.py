import json
import re
import shutil
from dataclasses import asdict, replace

import pytest

from elmo import Elmo
from elmo.checkpoint.folder import content_hash
from elmo.config import SoftmaxConfig, TransformerConfig, WordConfig
from tests.cli.conftest import Run
from tests.conftest import TINY_CONFIG

WORDS = ("<S>", "</S>", "<UNK>", "bank")


@pytest.fixture(scope="module")
def rich_model() -> Elmo:
    config = replace(TINY_CONFIG, words=WordConfig(4, 3), softmax=SoftmaxConfig(4))
    return Elmo.from_config(config, vocabulary=WORDS)


def test_facts_as_json(run: Run, model_folder, tiny_model):
    answer = run("info", model_folder, "--json")
    found = json.loads(answer.out)
    assert (answer.code, answer.err, answer.out.count("\n")) == (0, "", 1)
    weights = tiny_model.checkpoint().weights
    total = sum(array.size for array in weights.values())
    machine = found.pop("on_this_machine")
    assert set(machine) == {"kernels", "auto_precision", "reason"}
    assert machine["kernels"].startswith(("compiled, ", "NumPy: "))
    parts = found.pop("parameters")
    assert parts.pop("total") == total == sum(parts.values())
    assert set(parts) == {"tokens.characters", "tokens.projection", "left_to_right", "right_to_left"}
    assert parts["left_to_right"] == parts["right_to_left"]
    assert found == {
        "format": "elmo",
        "origin": {"format": "random", "source": "seed 0"},
        "layers": 3,
        "vector_dim": 12,
        "config": json.loads(json.dumps(TINY_CONFIG.to_dict())),
        "num_aliases": 0,
        "vocabulary_words": None,
        "context": None,
        "files": {path.name: path.stat().st_size for path in sorted(model_folder.iterdir())},
        "content_hash": content_hash(weights),
    }


def test_facts_for_people(run: Run, rich_model, tmp_path):
    rich_model.save_pretrained(tmp_path / "model")
    answer = run("info", tmp_path / "model")
    # Facts within a fact are indented by two spaces.
    pairs = [re.fullmatch(r"((?:  )*\S+(?: \S+)*?)(?:  +(.*))?", line) for line in answer.out.splitlines()]
    rows = {pair[1]: pair[2] for pair in pairs if pair}
    assert (rows["format"], rows["layers"], rows["vector dim"]) == ("elmo", "3", "12")
    assert (rows["    kind"], rows["    cell dim"], rows["    max characters"]) == ("lstm", "12", "50")
    assert rows["vocabulary words"] == "4" and rows["  tokens.words"] == "12"
    assert "  weights.safetensors" in rows and len(rows["content hash"]) == 64


def test_a_transformer_is_described_by_its_own_settings(run: Run, tmp_path):
    encoder = TransformerConfig(num_layers=3, output_dim=8, num_heads=2, feed_forward_dim=16, context=5)
    Elmo.from_config(replace(TINY_CONFIG, encoder=encoder)).save_pretrained(tmp_path / "model")
    found = json.loads(run("info", tmp_path / "model", "--json").out)
    assert (found["layers"], found["vector_dim"]) == (4, 16)
    assert found["config"]["encoder"] == asdict(encoder)
    assert re.search(r"^    num heads +2$", run("info", tmp_path / "model").out, re.MULTILINE)


def test_a_zip_is_named_as_one(run: Run, model_folder, tmp_path):
    archive = shutil.make_archive(str(tmp_path / "model"), "zip", model_folder)
    found = json.loads(run("info", archive, "--json").out)
    assert found["format"] == "zip" and list(found["files"]) == ["model.zip"]
    unsuffixed = shutil.copy(archive, tmp_path / "download")
    assert json.loads(run("info", unsuffixed, "--json").out)["format"] == "zip"


def test_a_converted_model_remembers_its_origin(run: Run, model_folder, tmp_path):
    run("convert", model_folder, tmp_path / "old", "--to", "hdf5")
    run("convert", tmp_path / "old", tmp_path / "new")
    old, new = (json.loads(run("info", tmp_path / name, "--json").out) for name in ("old", "new"))
    assert (old["format"], new["format"]) == ("hdf5", "elmo")
    assert new["origin"] == old["origin"] == {"format": "hdf5", "source": "weights.hdf5"}
    assert set(old["files"]) == {"options.json", "weights.hdf5"}
    assert old["content_hash"] == new["content_hash"]


def test_without_a_model_the_default_one_is_described(run: Run):
    answer = run("info")
    assert answer.code == 0 and answer.err == ""
    assert "parameters" in answer.out and re.search(r"^vocabulary words +40,000$", answer.out, re.MULTILINE)


def test_no_such_model(run: Run, tmp_path):
    assert run("info", tmp_path / "none").message().startswith(f"No model was found at '{tmp_path}/none'; give a")
    assert "holds no model: expected config.json" in run("info", tmp_path).message()


def test_a_format_that_is_not_known(run: Run, model_folder):
    message = "'onnx' is not one of 'elmo', 'manylangs'"
    assert message in run("info", model_folder, "--model-format", "onnx").message()


def test_damaged_weights_are_reported(run: Run, tiny_model, tmp_path):
    tiny_model.save_pretrained(tmp_path / "model")
    weights = tmp_path / "model" / "weights.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1  # a bit of a weight, which stays finite
    weights.write_bytes(content)
    message = run("info", tmp_path / "model").message()
    assert message == f"{weights} is damaged (checksum mismatch); copy or save the model again."


def test_control_characters_of_a_model_do_not_reach_the_terminal(run: Run, tiny_model, tmp_path):
    tiny_model.save_pretrained(tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    config["origin"] = {"format": "\x1b[31mred", "source": "title\x1b]0;owned\x07\x9b2J"}
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    shown = run("info", tmp_path / "model").out
    assert r"\x1b[31mred" in shown and r"title\x1b]0;owned\x07\x9b2J" in shown
    assert all(line.isprintable() for line in shown.splitlines())


def test_info_lists_the_scripts_of_a_character_model(run: Run):
    facts = json.loads(run("info", "zh-small", "--json").out)
    assert facts["config"]["tokenization"] == {"units": "characters", "scripts": ["Han"]} and facts["num_aliases"] > 100


def test_a_task_folder_is_described(run: Run, tmp_path):
    from tests.cli.test_process import make_task

    folder = make_task(tmp_path)
    text = run("info", folder).out
    assert re.search(r"^family +classification$", text, re.MULTILINE) and "bad, good" in text
    assert json.loads(run("info", folder, "--json").out)["family"] == "classification"
