"""Opening a prepared corpus: strict validation, lazy reading."""

import json
from pathlib import Path

import numpy as np
import pytest

from elmo.corpus.prepare import prepare
from elmo.corpus.prepared import PreparedCorpus
from elmo.errors import InputError
from elmo.text.characters import Utf8Alphabet


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "text.txt").write_text("The cat sat on the mat. It was naïve.\n" * 900, encoding="utf-8")
    prepare([tmp_path / "text.txt"], tmp_path / "corpus", shard_bytes=9000, num_workers=1)
    return tmp_path / "corpus"


def test_blocks_cover_all_shards_in_order(folder):
    corpus = PreparedCorpus.open(folder)
    blocks = corpus.blocks()
    assert blocks.dtype == np.int64 and blocks.shape[1] == 3
    pieces = [corpus.shard(shard)[start:stop] for shard, start, stop in blocks]
    assert all(piece[0] == 0 for piece in pieces)
    whole = np.concatenate([corpus.shard(number) for number in range(corpus.num_shards)])
    assert np.array_equal(np.concatenate(pieces), whole)
    assert len(whole) == corpus.num_tokens == corpus.num_words + corpus.num_sentences
    assert corpus.num_shards > 1 and corpus.num_sentences == 1800


def test_arrays_are_mapped_not_read(folder):
    corpus = PreparedCorpus.open(folder)
    for array in (corpus.shard(0), corpus.targets, corpus.word_counts):
        assert isinstance(array, np.memmap)
    assert corpus.shard(0).dtype == np.uint32 and corpus.targets.dtype == np.uint32


def test_ids_lead_to_words_characters_and_targets(folder):
    corpus = PreparedCorpus.open(folder)
    ids = corpus.shard(0)[1:14]
    assert corpus.words(ids) == ["The", "cat", "sat", "on", "the", "mat", ".", "", "It", "was", "naïve", ".", ""]
    assert corpus.words([ids[10]]) == ["naïve"]
    words = ids[ids > 0]
    assert np.array_equal(corpus.character_ids(words, 20), Utf8Alphabet(20).encode(corpus.words(words)))
    assert [corpus.vocabulary[target] for target in corpus.targets[ids]][6:10] == [".", "<S>", "It", "was"]


def test_a_folder_without_a_manifest_is_no_corpus(folder):
    (folder / "manifest.json").unlink()
    with pytest.raises(InputError, match="holds no complete prepared corpus "):
        PreparedCorpus.open(folder)


@pytest.mark.parametrize("name", ["shards/00001.npy", "shards/00000.starts.npy", "words.bin", "vocabulary.txt"])
def test_damage_is_found_and_named(folder, name):
    path = folder / name
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"{name} has a checksum mismatch; prepare the corpus again with --fo"):
        PreparedCorpus.open(folder).read_block(1, 0, 5)
    path.write_bytes(content[:-3])
    with pytest.raises(InputError, match=rf"{name} has [\d,]+ bytes, not [\d,]+; prepare the corpus again"):
        PreparedCorpus.open(folder)
    path.unlink()
    with pytest.raises(InputError, match=rf"{name} cannot be read \(No such file or directory\); prepare"):
        PreparedCorpus.open(folder)


def test_a_shard_is_compared_when_it_is_first_read(folder):
    path = folder / "shards" / "00001.npy"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    corpus = PreparedCorpus.open(folder)
    assert np.array_equal(corpus.read_block(0, 3, 9), corpus.shard(0)[3:9])
    with pytest.raises(InputError, match=r"00001.npy has a checksum mismatch"):
        corpus.read_block(1, 0, 5)
    path.write_bytes(content)
    assert np.array_equal(corpus.read_block(1, 3, 9), corpus.shard(1)[3:9])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "is not a prepared corpus"),
        ({"version": 2}, "has version 2 of the format, but this program reads version 1"),
    ],
)
def test_foreign_manifests_are_refused(folder, change, message):
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=message):
        PreparedCorpus.open(folder)
    path.write_text("{")
    with pytest.raises(InputError, match="is not a prepared corpus, or its manifest.json is damaged"):
        PreparedCorpus.open(folder)
