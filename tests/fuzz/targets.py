"""What a fuzzer does with its bytes: one target per reader of bytes that strangers write.

A reader may succeed or raise an ElmoError; every other exception is a finding. Where a model has several files,
the first byte of the input chooses which of them is replaced by the rest.
"""

import asyncio
import hashlib
import json
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

from elmo import Elmo
from elmo.checkpoint.folder import ALIASES_FILE, CONFIG_FILE, WEIGHTS_FILE
from elmo.corpus.settings import read_vocabulary
from elmo.errors import ElmoError
from elmo.fusion.word_vectors import read_word_vectors
from elmo.tasks.readers import open_reader
from elmo.tasks.settings import ReadSettings
from tests.language_models import VOCABULARY, make_language_model

FIXTURES = Path(__file__).parents[1] / "parity" / "fixtures"
SENTENCES = ["I went 去 銀行", ["the", "", "bank" * 20]]


class Target:
    """One reader; `seeds` are valid inputs to start from."""

    seeds: Mapping[str, bytes]

    def __init__(self, folder: Path) -> None:
        """`folder` is an empty folder for the files that are read."""
        self.folder = folder

    def __call__(self, content: bytes) -> None:
        """Read the content as a user would."""
        raise NotImplementedError


def use_model(path: Path) -> None:
    """Open a model and compute with it."""
    model = Elmo.from_pretrained(path, precision="float32")
    model.embed(SENTENCES, layers="all")


class ModelFiles(Target):
    """A model folder of which one file is replaced."""

    def __init__(self, folder: Path, files: Mapping[str, bytes]) -> None:
        super().__init__(folder)
        self.files = dict(sorted(files.items()))
        self.names = list(self.files)
        self.seeds = {name: bytes([at]) + self.files[name] for at, name in enumerate(self.names)}

    def __call__(self, content: bytes) -> None:
        if content:
            name = self.names[content[0] % len(self.names)]
            for file_name, file_content in self.replace(name, content[1:]).items():
                (self.folder / file_name).write_bytes(file_content)
            use_model(self.folder)

    def replace(self, name: str, content: bytes) -> dict[str, bytes]:
        """Return the files of the model with the replaced one."""
        return {**self.files, name: content}


def read_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def make_model() -> dict[str, bytes]:
    """Return the files of a small model with all lists, a context layer and a sentence head."""
    checkpoint = make_language_model().checkpoint()
    checkpoint = replace(checkpoint, word_counts=tuple(range(len(VOCABULARY))), aliases={"銀": "银", "A": "a"})
    with tempfile.TemporaryDirectory() as folder:
        Elmo(checkpoint).save_pretrained(Path(folder) / "model")
        return read_files(Path(folder) / "model")


class ElmoFolder(ModelFiles):
    """Our own folder; config.json gets the hash of a replaced list, so that the list itself is read."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, make_model())

    def replace(self, name: str, content: bytes) -> dict[str, bytes]:
        """Return the files with a config.json that knows the replaced list."""
        files = super().replace(name, content)
        if name not in (CONFIG_FILE, WEIGHTS_FILE):
            config = json.loads(files[CONFIG_FILE])
            config["lists"][name] = hashlib.sha256(content).hexdigest()
            files[CONFIG_FILE] = json.dumps(config).encode()
        return files


class Aliases(ElmoFolder):
    """The tokens that a model takes for others."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.seeds = {"pairs": self.files[ALIASES_FILE], "empty": b"", "blank": b"a \n b\n"}

    def __call__(self, content: bytes) -> None:
        super().__call__(bytes([self.names.index(ALIASES_FILE)]) + content)


class Hdf5(ModelFiles):
    """The layout of bilm-tf and AllenNLP."""

    def __init__(self, folder: Path) -> None:
        names = ("options.json", "weights.hdf5")
        files = {name: (FIXTURES / "bilm-tf-one-layer" / name).read_bytes() for name in names}
        super().__init__(folder, {**files, "vocab.txt": "\n".join(VOCABULARY).encode()})


class ManyLangs(ModelFiles):
    """The layout of ELMoForManyLangs."""

    def __init__(self, folder: Path) -> None:
        from tests.checkpoint import manylangs_files  # needs torch

        settings = manylangs_files.make_settings()
        with tempfile.TemporaryDirectory() as place:
            weights = manylangs_files.make_state_dicts(settings)
            super().__init__(folder, read_files(manylangs_files.write_model(Path(place), settings, *weights)))


class Archive(Target):
    """A zip archive of a model."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.seeds = {
            f"{name}-{method}": pack(files, method)
            for name, files in (("elmo", make_model()), ("nothing", {"a/b": b"", "a\\c": b"x"}))
            for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        }

    def __call__(self, content: bytes) -> None:
        (self.folder / "model.zip").write_bytes(content)
        use_model(self.folder / "model.zip")


def pack(files: Mapping[str, bytes], method: int) -> bytes:
    content = BytesIO()
    with zipfile.ZipFile(content, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return content.getvalue()


class WordLists(Target):
    """Vocabularies and files of word vectors, plain or compressed."""

    endings = ("txt", "txt.gz", "txt.xz", "txt.bz2", "txt.zst")
    seeds: Mapping[str, bytes] = {
        "vocabulary": b"\x00<S>\n</S>\n<UNK>\nthe\n\xe9\x8a\x80\n",
        "counts": b"\x00<S>\t1\n</S>\t2\n<UNK>\nthe 3\n",
        "word2vec": b"\x002 3\nthe 1 2 3\nNew York 1e-3 -2 .5\n",
        "glove": b"\x00the 1 2 3\nbank 4 5 6\n",
    }

    def __call__(self, content: bytes) -> None:
        path = self.folder / f"words.{self.endings[(content or bytes(1))[0] % len(self.endings)]}"
        path.write_bytes(content[1:])
        for read in (read_vocabulary, read_vectors):
            try:
                read(path)
            except ElmoError:
                continue


def read_vectors(path: Path) -> None:
    read_word_vectors(path, ("the", "bank"))


class TaskFile(Target):
    """A file of labelled examples, read, and written again with its targets as predictions."""

    choices: tuple[tuple[str, str, str | None], ...]  # family, ending, format
    examples: tuple[str, ...]

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.seeds = {
            f"{at}-{number}": bytes([at]) + example.encode()
            for at in range(len(self.choices))
            for number, example in enumerate(self.examples)
        }

    def __call__(self, content: bytes) -> None:
        family, ending, format = self.choices[(content or bytes(1))[0] % len(self.choices)]
        path = self.folder / f"examples.{ending}"
        path.write_bytes(content[1:])
        for labelled in (True, False):
            try:
                reader = open_reader(str(path), family, ReadSettings(format=format), labelled=labelled)
                for example in reader:
                    assert example.place
            except ElmoError:
                continue


class Conll(TaskFile):
    """CoNLL and CoNLL-U."""

    choices = (("tagging", "conll", None), ("tagging", "conllu", None), ("tagging", "txt", "conll"))
    examples = (
        "the DET\nbank NOUN\n\n-DOCSTART- -X-\n\nwent\tO\n",
        "# text = del\n1-2\tdel\t_\t_\t_\t_\t_\t_\t_\t_\n1\tde\tde\tADP\t_\t_\t0\troot\t_\t_\n"
        "2\tel\tel\tDET\t_\t_\t1\tdet\t_\t_\n2.1\t_\t_\t_\t_\t_\t_\t_\t_\t_\n\n",
    )


class Table(TaskFile):
    """CSV, TSV and JSON tables."""

    choices = tuple(
        (family, ending, ending if ending != "txt" else None)
        for family in ("classification", "pairs", "question_answering")
        for ending in ("csv", "tsv", "jsonl", "json", "txt")
    )
    examples = (
        'text,label\n"good, ""very""\nfilm",pos\nbad,neg\n',
        "text1\ttext2\tlabel\na\tb\t0.5\n",
        '{"question": "who", "context": "a man", "answer": "man", "text": "x", "label": 1}\n',
        '[{"text": ["two", "words"], "label": "a"}, {"text": "\\ud800", "label": null}]',
    )


class Http(Target):
    """Requests to the server: the first byte chooses the route, the rest is the body."""

    seeds: Mapping[str, bytes] = {
        "embeddings": b'\x00{"input": ["I went", "the bank"], "encoding_format": "base64"}',
        "embed": b'\x01{"sentences": ["I went", ["the", "bank"]], "layers": "all"}',
        "similarity": b'\x02{"sentence_a": "the [bank]", "sentence_b": "a [bank]"}',
        "substitutes": b'\x03{"sentence": "the [bank]", "top_k": 3}',
        "score": b'\x04{"sentences": ["I went to the bank ."]}',
        "senses": b'\x05{"sentences": ["the [bank]", "a [bank]", "my [bank] ."], "num_senses": 2}',
    }

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        from elmo.serve.app import create_app
        from elmo.serve.served import Served, ServedModel
        from elmo.serve.settings import Settings

        served = Served({"tiny": ServedModel("tiny", make_language_model(), None)}, {})
        self.app = create_app(Settings(), served)
        self.paths = ["/v1/embeddings", "/embed", "/similarity", "/substitutes", "/score", "/senses"]
        self.loop = asyncio.new_event_loop()
        self.lifespan = self.app.router.lifespan_context(self.app)
        self.loop.run_until_complete(self.lifespan.__aenter__())

    def __call__(self, content: bytes) -> None:
        path = self.paths[(content or bytes(1))[0] % len(self.paths)]
        status, body = self.loop.run_until_complete(asyncio.wait_for(self.post(path, content[1:]), 60))
        answer = json.loads(body)
        assert status < 500, f"{path}: {status} {body[:500]!r}"
        assert status < 400 or set(answer["error"]) == {"code", "message", "field"}, body[:500]

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Send a request to the application as a server does; return the status and the body of the answer."""
        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
            "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
            "headers": [*headers, (b"content-length", str(len(body)).encode())],
            "client": ("127.0.0.1", 1), "server": ("localhost", 80), "state": {},
        }  # fmt: skip
        requests = [{"type": "http.request", "body": body, "more_body": False}]
        answers: list[Any] = []
        never = asyncio.Event()

        async def receive() -> Any:
            if not requests:
                await never.wait()
            return requests.pop()

        async def send(message: Any) -> None:
            answers.append(message)

        await self.app(scope, receive, send)
        return answers[0]["status"], b"".join(answer.get("body", b"") for answer in answers)


TARGETS: dict[str, Callable[[Path], Target]] = {
    "folder": ElmoFolder,
    "aliases": Aliases,
    "hdf5": Hdf5,
    "manylangs": ManyLangs,
    "zip": Archive,
    "word_lists": WordLists,
    "conll": Conll,
    "csv": Table,
    "http": Http,
}


def check(target: Target, content: bytes) -> None:
    """Run a target; an ElmoError is the answer that a user should get."""
    try:
        target(content)
    except ElmoError as error:
        assert str(error).strip(), "an error without a message"
