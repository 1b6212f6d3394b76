"""Preparing a corpus: the content of the folder, and interruptions that change nothing."""

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from elmo.corpus import parts as corpus_parts
from elmo.corpus.prepare import prepare as prepare_corpus
from elmo.corpus.prepared import PreparedCorpus
from elmo.corpus.settings import PrepareSettings
from elmo.errors import ConfigError, ElmoError, InputError
from elmo.files.workers import Workers
from elmo.text.tokenize import split_sentences, tokenize

SOURCE = Path(__file__).parents[2] / "src"
# Each call of this costs a second of start-up, so few tests make one.
PROGRAM = """
import sys
from elmo.corpus.prepare import prepare
if __name__ == "__main__":
    prepare([sys.argv[1]], sys.argv[2], shard_bytes=40_000, num_workers=2)
"""


def make_text(num_lines: int, seed: int = 0) -> str:
    random = np.random.default_rng(seed)
    words = [f"word{number}" for number in random.zipf(1.2, num_lines * 20) % 100_000]
    return "".join(" ".join(words[start : start + 20]) + ".\n" for start in range(0, len(words), 20))


def write_text(folder: Path, text: str, name: str = "text.txt") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


def sentences_of(corpus: PreparedCorpus) -> list[list[str]]:
    found: list[list[str]] = []
    for number in range(corpus.num_shards):
        for id_, word in zip(corpus.shard(number), corpus.words(corpus.shard(number)), strict=True):
            if id_ == 0:
                found.append([])
            else:
                found[-1].append(word)
    return found


def contents(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def prepare(path: Path, output: Path, *, workers: int = 1, force: bool = False, **settings) -> PreparedCorpus:
    return prepare_corpus(path, output, **settings, num_workers=workers, force=force)


def test_the_corpus_is_the_text(tmp_path):
    text = "Dr. Smith didn't go. He stayed!\n\nA third one — 你好.\n"
    corpus = prepare(write_text(tmp_path, text), tmp_path / "out")
    expected = [
        [word.text for word in tokenize(sentence)] for line in text.split("\n") for sentence in split_sentences(line)
    ]
    assert sentences_of(corpus) == expected and len(expected) == 3
    counts = Counter(word for sentence in expected for word in sentence)
    assert corpus.num_sentences == 3
    assert corpus.num_words == counts.total()
    assert corpus.num_tokens == counts.total() + 3
    assert corpus.num_distinct_words == len(counts)
    rows = corpus.words(range(1, len(counts) + 1))
    assert rows == sorted(counts)
    assert corpus.word_counts.tolist() == [3, *(counts[word] for word in rows)]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"split": "lines"}, [["One", "."], ["Two", "."], ["A", "dog", ".", "Four", "."]]),
        ({"split": "none"}, [["One", ".", "Two", "."], ["A", "dog", ".", "Four", "."]]),
        ({"split": "none", "split_on_spaces": True}, [["One.", "Two."], ["A", "dog.", "Four."]]),
        ({"split_on_spaces": True}, [["One."], ["Two."], ["A", "dog."], ["Four."]]),
    ],
)
def test_text_is_split_as_requested(tmp_path, settings, expected):
    path = write_text(tmp_path, "One.\nTwo.\n \t \nA dog. Four.\n")
    assert sentences_of(prepare(path, tmp_path / "out", **settings)) == expected


def test_odd_text_survives(tmp_path):
    lines = ["a\x00b \u2028 c\td \u200f שלום עולם. \U0001f1e9\U0001f1ea \x1c\x85 e\u0301", "\x00", "\r", " \u3000"]
    path = write_text(tmp_path, "\n".join(lines))
    corpus = prepare(path, tmp_path / "out", split="lines")
    assert sentences_of(corpus) == [[word.text for word in tokenize(line)] for line in lines[:2]]
    assert corpus.vocabulary[3:] and set(corpus.vocabulary[3:]) == set(corpus.words(range(1, len(corpus.targets))))


@pytest.mark.parametrize(("unit", "num_words"), [("x", 1), ("x" * 99 + " ", 100_000)])
def test_a_line_of_ten_megabytes_is_a_line(tmp_path, unit, num_words):
    path = write_text(tmp_path, unit * (10_000_000 // len(unit)))
    corpus = prepare(path, tmp_path / "out", split="lines")
    assert (corpus.num_words, corpus.num_sentences) == (num_words, 1)


def test_a_vocabulary_is_the_most_frequent_words(tmp_path):
    path = write_text(tmp_path, "b b b a a c c <S> <S> <S> <S> <UNK> d\n")
    corpus = prepare(path, tmp_path / "out", split_on_spaces=True, vocabulary_size=6)
    assert corpus.vocabulary == ("<S>", "</S>", "<UNK>", "b", "a", "c")
    targets = dict(zip(corpus.words(range(len(corpus.targets))), corpus.targets.tolist(), strict=True))
    assert targets == {"": 0, "<S>": 2, "<UNK>": 2, "a": 4, "b": 3, "c": 5, "d": 2}
    assert corpus.manifest["counts"]["num_unknown_words"] == 6
    assert corpus.manifest["counts"]["unknown_rate"] == round(6 / 13, 6)


def test_a_vocabulary_by_count_or_from_a_file(tmp_path):
    path = write_text(tmp_path, "b b b a a c c d\n")
    assert prepare(path, tmp_path / "1", min_count=2).vocabulary[3:] == ("b", "a", "c")
    words = write_text(tmp_path, "</S>\n<S>\nc\n<UNK>\nzebra\n", "words.txt")
    corpus = prepare(path, tmp_path / "2", vocabulary=words)
    assert corpus.vocabulary == ("</S>", "<S>", "c", "<UNK>", "zebra")
    assert corpus.targets.tolist() == [1, 3, 3, 2, 3]
    with pytest.raises(InputError, match="No word occurs 4 times"):
        prepare(path, tmp_path / "3", min_count=4)


def test_a_vocabulary_file_must_be_usable(tmp_path):
    path = write_text(tmp_path, "a\n")
    for words, message in {
        "<S>\na\n": r"words.txt does not list </S>, <UNK>; add a line for each\.$",
        "<S>\n</S>\n<UNK>\na\nb\na\n": r"words.txt lists 'a' again in line 6; remove that line\.$",
    }.items():
        with pytest.raises(InputError, match=message):
            prepare(path, tmp_path / "out", vocabulary=write_text(tmp_path, words, "words.txt"))
    with pytest.raises(InputError, match=r"none.txt cannot be read: No such file or directory\.$"):
        prepare(path, tmp_path / "out", vocabulary=tmp_path / "none.txt")
    assert not (tmp_path / "out").exists()


def test_all_faults_of_settings_are_reported_together():
    with pytest.raises(ConfigError) as caught:
        PrepareSettings(split="words", language="english!", vocabulary_size=3, min_count=0)  # type: ignore[arg-type]
    for fault in (
        "split is 'words'; it must be one of 'sentences', 'lines', 'none'",
        "language is 'english!', but a code",
        "vocabulary_size and min_count were given together",
        "vocabulary_size is 3; it must be above 3",
        "min_count is 0; it must be above 0",
    ):
        assert fault in str(caught.value)
    with pytest.raises(ConfigError, match="language is 'de', but it is used only if split is sentences"):
        PrepareSettings(split="lines", language="de")


def test_the_manifest_states_everything(tmp_path):
    path = write_text(tmp_path, make_text(300))
    corpus = prepare(path, tmp_path / "out", shard_bytes=10_000)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert (manifest["format"], manifest["version"]) == ("modern-elmo-corpus", 1)
    assert manifest["settings"]["vocabulary_size"] == 40_000 and manifest["settings"]["language"] == "en"
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    assert manifest["inputs"] == [
        {"name": str(path), "format": "txt", "num_bytes": path.stat().st_size, "sha256": sha256}
    ]
    assert sum(shard["num_tokens"] for shard in manifest["shards"]) == corpus.num_tokens
    assert len(manifest["shards"]) > 3
    names = {"manifest.json", *manifest["files"]}
    for number in range(len(manifest["shards"])):
        names |= {f"shards/{number:05d}.npy", f"shards/{number:05d}.starts.npy"}
    assert set(contents(tmp_path / "out")) == names


def test_workers_and_progress_do_not_change_the_result(tmp_path, on_progress):
    path = write_text(tmp_path, make_text(3000))
    one = prepare(path, tmp_path / "1", shard_bytes=60_000)
    steps = []
    on_progress(lambda *step: steps.append(step))
    prepare_corpus(path, tmp_path / "2", shard_bytes=60_000, num_workers=2)
    assert contents(tmp_path / "1") == contents(tmp_path / "2")
    assert one.num_shards > 4
    assert np.sum(steps, axis=0).tolist() == [one.num_words, path.stat().st_size]
    assert np.min(steps) >= 0


def start_program(tmp_path: Path, path: Path, output: Path) -> "subprocess.Popen[bytes]":
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    return subprocess.Popen(
        [sys.executable, tmp_path / "program.py", path, output], env=environment, stderr=subprocess.PIPE
    )


def wait_for_parts(process: "subprocess.Popen[bytes]", output: Path, number: int) -> list[Path]:
    deadline = time.monotonic() + 60
    while True:
        parts = sorted(output.glob(".preparing/part-*"))
        if len(parts) >= number:
            return parts
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)


def test_killed_runs_are_continued_to_the_same_result(tmp_path, on_progress):
    path = write_text(tmp_path, make_text(12_000))
    output = tmp_path / "out"
    for num_parts in (2, 12):
        process = start_program(tmp_path, path, output)
        wait_for_parts(process, output, num_parts)
        process.kill()
        process.communicate()
        with pytest.raises(InputError, match="holds no complete prepared corpus"):
            PreparedCorpus.open(output)
    kept = {part.name: part.stat().st_ino for part in wait_for_parts(process, output, 12)}
    inodes = {}

    def look(num_words: int, num_bytes: int) -> None:
        inodes.update({part.name: part.stat().st_ino for part in output.glob(".preparing/part-*")})

    on_progress(look)
    corpus = prepare_corpus(path, output, shard_bytes=40_000, num_workers=2)
    assert kept.items() <= inodes.items() and len(inodes) > len(kept)
    prepare(path, tmp_path / "clean", shard_bytes=40_000)
    assert contents(output) == contents(tmp_path / "clean")
    assert corpus.num_words == 12_000 * 21


@pytest.mark.needs("SIGKILL")
def test_ctrl_c_leaves_a_resumable_folder(tmp_path):
    path = write_text(tmp_path, make_text(12_000))
    process = start_program(tmp_path, path, tmp_path / "out")
    kept = wait_for_parts(process, tmp_path / "out", 1)
    process.send_signal(signal.SIGINT)
    assert b"KeyboardInterrupt" in process.communicate(timeout=30)[1]
    assert kept[0].exists() and not (tmp_path / "out" / "manifest.json").exists()


def die(number: int) -> None:
    os.kill(os.getpid(), number)


def leave() -> None:
    os._exit(3)


def blunder() -> None:
    raise ZeroDivisionError("a mistake of ours")


def refuse() -> None:
    raise InputError("not this line")


@pytest.mark.needs("SIGKILL")
def test_a_worker_that_dies_is_reported_with_its_cause():
    for call, message in (
        (
            (die, (signal.SIGKILL,)),
            r"A worker process died \(killed by SIGKILL, perhaps because memory ran out\); the",
        ),
        ((leave, ()), r"A worker process died \(exit code 3\)"),
    ):
        with pytest.raises(ElmoError, match=message):
            list(Workers(2).run([call] * 3))


def test_errors_of_workers_keep_their_kind_and_cause():
    with pytest.raises(InputError, match="^not this line$"):
        list(Workers(2).run([(refuse, ())]))
    with pytest.raises(RuntimeError, match="ZeroDivisionError: a mistake of ours"):
        list(Workers(2).run([(blunder, ())]))


def test_workers_import_no_torch(tmp_path):
    program = "import sys, elmo.corpus.prepare; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "PYTHONPATH": str(SOURCE)})


def test_an_input_error_midway_leaves_finished_parts(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(make_text(1000).encode() + b"\xff\n")
    with pytest.raises(InputError, match=r"text.txt, line 1001, is not UTF-8 \(byte 0xff at position 0\)"):
        prepare(path, tmp_path / "out", shard_bytes=20_000)
    assert len(list(tmp_path.glob("out/.preparing/part-*"))) > 2


def test_a_run_that_failed_on_a_full_disk_can_be_resumed(tmp_path, monkeypatch):
    path = write_text(tmp_path, make_text(100))

    def fail(target):
        raise OSError(errno.ENOSPC, "No space left on device", str(target))

    with monkeypatch.context() as patch:
        patch.setattr(corpus_parts, "atomic_write", fail)
        with pytest.raises(OSError, match="No space left on device"):
            prepare(path, tmp_path / "out")
    assert prepare(path, tmp_path / "out").num_words == 2100


def test_a_corpus_prepared_otherwise_is_not_overwritten(tmp_path):
    path = write_text(tmp_path, make_text(50))
    prepare(path, tmp_path / "out")
    before = contents(tmp_path / "out")
    assert prepare(path, tmp_path / "out", vocabulary_size=40_000).num_words == 1050  # the same, so it is opened
    with pytest.raises(InputError, match=r"settings or inputs \(vocabulary_size was 40000 and is now 50\)"):
        prepare(path, tmp_path / "out", vocabulary_size=50)
    path.write_text(make_text(60))
    with pytest.raises(InputError, match=r"\(its input files are not those given now\)"):
        prepare(path, tmp_path / "out")
    assert contents(tmp_path / "out") == before
    assert prepare(path, tmp_path / "out", force=True).num_words == 1260


def test_parts_of_other_text_are_not_reused(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"one two\n" * 100 + b"\xff\n")
    with pytest.raises(InputError):
        prepare(path, tmp_path / "out", shard_bytes=100)
    path.write_bytes(b"other words\n" * 100)
    corpus = prepare(path, tmp_path / "out", shard_bytes=100)
    assert corpus.words([1, 2]) == ["other", "words"] and corpus.num_words == 200


def test_other_files_in_the_folder_are_left_alone(tmp_path):
    path = write_text(tmp_path, "a\n")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(InputError, match=r"holds other files \(thesis.tex\)"):
        prepare(path, tmp_path / "mine", force=True)
    with pytest.raises(InputError, match="text.txt is a file"):
        prepare(path, path)


def test_two_runs_do_not_share_a_folder(tmp_path):
    from filelock import FileLock

    (tmp_path / "out" / ".preparing").mkdir(parents=True)
    with (
        FileLock(tmp_path / "out" / ".preparing" / ".lock"),
        pytest.raises(InputError, match="Another run is writing"),
    ):
        prepare(write_text(tmp_path, "a\n"), tmp_path / "out")


def test_input_without_a_word_is_refused(tmp_path):
    with pytest.raises(InputError, match="There are no words in the input"):
        prepare(write_text(tmp_path, " \n\n"), tmp_path / "out")


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, on_progress):
    path = write_text(tmp_path, make_text(100))

    on_progress(lambda num_words, num_bytes: path.write_text("other"))
    with pytest.raises(InputError, match="was changed while it was read"):
        prepare_corpus(path, tmp_path / "out", num_workers=1)


def test_less_than_one_worker_is_refused(tmp_path):
    with pytest.raises(InputError, match="workers is 0; at least 1 is needed"):
        prepare(write_text(tmp_path, "a"), tmp_path / "out", workers=0)
