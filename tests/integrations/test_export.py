"""elmo export: ONNX files for onnxruntime in Python and JavaScript, word2vec files for gensim."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from elmo import Elmo
from elmo.cli import main
from elmo.config import ModelConfig, TransformerConfig
from elmo.errors import InputError

from .toys import CONFIG, SENTENCES, needs

PAGE = Path(__file__).parents[2] / "docs" / "integrations" / "onnx.md"
BLOCKS = re.findall(r"```(python|javascript)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
CLIENTS = {
    language: "".join(code for block_language, code in BLOCKS if block_language == language) for language, _ in BLOCKS
}
# Run with NODE_PATH naming a folder where `npm install onnxruntime-node` was done.
HAS_NODE = shutil.which("node") is not None and (
    subprocess.run(["node", "-e", "require('onnxruntime-node')"], capture_output=True).returncode == 0
)


@pytest.fixture
def exported(model_folder, tmp_path, capsys):
    pytest.importorskip("onnx", reason="the extra modern-elmo[onnx] is not installed")
    assert main(["export", "onnx", str(model_folder), str(tmp_path / "model.onnx")]) == 0
    assert "3 layers of 64 dimensions" in capsys.readouterr().out
    return tmp_path / "model.onnx"


@needs("onnxruntime")
def test_the_documented_python_client_gives_the_vectors_of_embed(exported, model):
    names = {}
    exec(compile(CLIENTS["python"], str(PAGE), "exec"), names)
    actual = names["Client"](str(exported)).embed(SENTENCES)
    for array, expected in zip(actual, model.embed(SENTENCES, layers="all"), strict=True):
        np.testing.assert_allclose(array, expected, atol=1e-4)


@needs("onnxruntime", "onnx")
def test_the_documented_client_reads_chinese_text_as_the_model_does(tmp_path):
    from elmo.integrations.onnx import export_onnx

    model = Elmo.from_pretrained("zh-small", precision="float32")
    export_onnx(model, tmp_path / "zh.onnx")
    names = {}
    exec(compile(CLIENTS["python"], str(PAGE), "exec"), names)
    client = names["CharacterClient"](str(tmp_path / "zh.onnx"))
    for text in ("他在2008年买了iPhone手机。", "蘋果公司發布了３款新產品！"):
        np.testing.assert_allclose(client.embed(text), model.embed(text, layers="all"), atol=1e-4)


@pytest.mark.skipif(not HAS_NODE, reason="node with the npm package onnxruntime-node is not here")
def test_the_documented_javascript_client_gives_the_vectors_of_embed(exported, model, tmp_path):
    program = (
        CLIENTS["javascript"]
        + f"""
embed({json.dumps(str(exported))}, {json.dumps(SENTENCES)}).then((actual) => console.log(JSON.stringify(actual)));
"""
    )
    (tmp_path / "client.js").write_text(program, encoding="utf-8")
    printed = subprocess.run(["node", str(tmp_path / "client.js")], capture_output=True, text=True, check=True)
    for layers, expected in zip(json.loads(printed.stdout), model.embed(SENTENCES, layers="all"), strict=True):
        np.testing.assert_allclose(np.array(layers), expected, atol=1e-4)


def test_a_transformer_is_refused(tmp_path):
    pytest.importorskip("onnx", reason="the extra modern-elmo[onnx] is not installed")
    from elmo.integrations.onnx import export_onnx

    encoder = TransformerConfig(num_layers=1, output_dim=8, num_heads=2, feed_forward_dim=8)
    model = Elmo.from_config(ModelConfig(encoder=encoder, characters=CONFIG.characters))
    with pytest.raises(InputError, match="is a Transformer"):
        export_onnx(model, tmp_path / "model.onnx")


def test_a_missing_package_is_named_with_its_extra(model_folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert main(["export", "onnx", str(model_folder), str(tmp_path / "model.onnx")]) == 2
    assert "elmo export onnx needs onnx: python -m pip install" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@needs("gensim")
@pytest.mark.parametrize("binary", [False, True])
def test_gensim_reads_the_static_vectors(model_folder, model, tmp_path, binary):
    from gensim.models import KeyedVectors

    (tmp_path / "words.txt").write_text("bank\nriver\nnaïve\n日本\nbank\n", encoding="utf-8")
    flags = ["--binary"] if binary else []
    arguments = ["export", "word2vec", str(model_folder), str(tmp_path / "out"), *flags]
    assert main([*arguments, "--words", str(tmp_path / "words.txt")]) == 0
    read = KeyedVectors.load_word2vec_format(str(tmp_path / "out"), binary=binary)
    assert read.index_to_key == ["bank", "river", "naïve", "日本"]
    np.testing.assert_allclose(read.vectors, model.word_vectors(read.index_to_key), atol=1e-6)


def test_the_vocabulary_is_written_without_its_special_words(model_folders, tmp_path):
    from elmo.integrations.word2vec import write_word2vec

    model = Elmo.from_pretrained(model_folders["words"])
    write_word2vec(model, tmp_path / "out")
    first, *lines = (tmp_path / "out").read_text(encoding="utf-8").splitlines()
    words = [line.split(" ")[0] for line in lines]
    assert first == f"{len(words)} 32" and "bank" in words and not {"<S>", "</S>", "<UNK>"} & {*words}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["word2vec", "MODEL", "out"], "This model has no vocabulary"),
        (
            ["word2vec", "MODEL", "out", "--words", "phrases"],
            "phrases, line 2: 'New York'",
        ),
        (["word2vec", "MODEL", "out", "--words", "nothing"], "nothing, line 1: ''"),
        (["onnx", "MODEL", "no/folder/x.onnx"], "does not exist"),
        (["onnx", "nowhere", "x.onnx"], "nowhere"),
    ],
)
def test_mistakes_are_one_sentence(model_folder, tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    Path("phrases").write_text("bank\nNew York\n")
    Path("nothing").write_text("\n")
    asked = [str(model_folder) if argument == "MODEL" else argument for argument in arguments]
    assert main(["export", *asked]) == 2
    printed = capsys.readouterr().err
    assert message in printed and len(printed.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["nothing", "phrases"]
