"""Learning the word vectors of a teacher, a Hugging Face encoder (extra `distill`): lessons, heads and losses.

A lesson follows from the seed and the number of its window alone, so a resumed run draws the same. All processes
draw the same sentences and each keeps its own rows. The teacher cuts words into pieces ahead, in another thread.
"""

import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo.checkpoint.source import fetch_from_hub
from elmo.corpus.prepared import MARK, PreparedCorpus
from elmo.corpus.static_vectors import StaticVectors
from elmo.errors import ConfigError, first_line
from elmo.model import Elmo
from elmo.nn import draw_glorot
from elmo.pretrain.distributed import Processes
from elmo.pretrain.settings import TrainSettings
from elmo.pretrain.stream import Ids, Lesson, PieceBatch, Pieces, find_targets
from elmo.text.vocabulary import Vocabulary

VALIDATION_WORDS = 5_000  # few, because a teacher is slow
MIN_OTHERS = 2  # other occurrences of a word in a lesson, for its relations to be learned
# Of the softmaxes over cosines. Ours is higher: larger differences of our cosines express the same preference.
TEACHER_TEMPERATURE, TEMPERATURE = 0.05, 0.1
AVERAGE = -1  # in place of the number of a layer
_DRAW = 1  # separates these random numbers from those of the windows
_NEVER = -1e9
MAX_PIECES = 512  # in one sentence
PIECES_AT_ONCE = 512  # in one batch; larger ones do not fit the caches of a CPU and take longer
# The other files of a repository hold the same weights for other libraries.
FILES = ("*.json", "*.txt", "*.model", "*.safetensors")
OLD_WEIGHTS = "pytorch_model*.bin"


class Teacher:
    """A frozen encoder."""

    def __init__(
        self, name: str, *, precision: torch.dtype = torch.float32, device: torch.device | str = "cpu"
    ) -> None:
        """Raise ConfigError if transformers is missing or `name` is not an encoder with word boundaries."""
        self.name, self._precision, self._device = name, precision, torch.device(device)
        self._network, self._tokenizer, self._max_pieces = _load_encoder(name)
        self._network = self._network.to(self._device)
        self._lock = threading.Lock()  # tokenizers are not thread-safe
        self._check()

    def cut(self, sentences: Sequence[Sequence[str]]) -> Pieces:
        """Cut words into pieces, batch sentences of similar length; what the encoder cannot hold is left out."""
        if not any(sentences):
            return Pieces((), torch.empty(0, dtype=torch.long))
        with self._lock:
            made = self._tokenizer(
                [list(words) for words in sentences],
                is_split_into_words=True,
                truncation=True,
                max_length=self._max_pieces,
                return_attention_mask=False,
                return_token_type_ids=False,
            )
        rows: list[tuple[list[int], list[int]]] = []  # per sentence: ids of its pieces, and their words
        first = 0
        for number, words in enumerate(sentences):
            places = [-1 if place is None else first + place for place in made.word_ids(number)]
            rows.append((made["input_ids"][number], places))
            first += len(words)
        with_pieces = sorted({place for _, places in rows for place in places if place >= 0})
        rank = {place: number for number, place in enumerate(with_pieces)} | {-1: -1}
        rows = [(ids, [rank[place] for place in places]) for ids, places in rows]
        rows.sort(key=lambda row: len(row[0]))
        batches = []
        while rows:
            size = 1
            while size < len(rows) and (size + 1) * len(rows[size][0]) <= PIECES_AT_ONCE:
                size += 1
            batches.append(_pad(rows[:size]))
            rows = rows[size:]
        return Pieces(tuple(batches), torch.tensor(with_pieces, dtype=torch.long))

    def vectors(self, pieces: Pieces) -> Tensor:
        """Return the vectors (N, teacher's dimension) of the words that have pieces, each of length 1."""
        found = torch.zeros(len(pieces.words), self.dim, device=self._device)
        for batch in pieces.batches:
            hidden = self._run(batch)
            own = (batch.word >= 0).to(self._device)
            # The sum has the direction of the mean.
            found.index_add_(0, batch.word.to(self._device)[own], hidden[own])
        return F.normalize(found, dim=1)

    def _run(self, batch: PieceBatch) -> Tensor:
        mixed = self._precision != torch.float32
        with torch.no_grad(), torch.autocast(self._device.type, self._precision, enabled=mixed):
            answer = self._network(
                input_ids=batch.ids.to(self._device), attention_mask=batch.mask.to(self._device)
            )
        hidden: Any = getattr(answer, "last_hidden_state", None)
        if not isinstance(hidden, Tensor) or hidden.dim() != 3:
            raise ConfigError(f"The teacher {self.name} returns no vectors per piece; choose an encoder.")
        return hidden.float()

    def _check(self) -> None:
        """Raise ConfigError unless words can be found in the pieces and their vectors depend on what follows."""
        sentences = [["the", "river"], ["the", "river", "and", "all", "that", "follows"]]
        pieces = self.cut(sentences)
        self.dim = self._run(pieces.batches[0]).shape[2] if pieces.batches else 0
        if len(pieces.words) != sum(map(len, sentences)):
            raise ConfigError(
                f"The tokenizer of the teacher {self.name} does not report which word a piece belongs to; choose "
                "an encoder whose fast tokenizer does."
            )
        alone, followed = self.vectors(pieces)[[0, 2]]
        if torch.linalg.vector_norm(alone - followed) < 1e-4:
            raise ConfigError(
                f"The teacher {self.name} reads from left to right only: its vectors do not depend on the words "
                "that follow; choose an encoder, such as BERT."
            )


def join_static_vectors(static: StaticVectors, teacher: Teacher) -> StaticVectors:
    """Return static vectors of the same dimension that hold what a teacher knows of each word alone as well.

    Both kinds are centred and of length 1; their principal components are kept. A word without pieces keeps what
    the corpus says of it.
    """
    pieces = teacher.cut([[form] for form in static.forms])
    found = teacher.vectors(pieces).cpu().numpy()
    taught = np.zeros((len(static.words), teacher.dim), dtype=np.float32)
    taught[pieces.words.numpy()] = found - found.mean(axis=0)
    both = np.concatenate([static.vectors, _scale(taught)], axis=1)
    both -= both.mean(axis=0)
    _, directions = np.linalg.eigh(both.T @ both)  # by rising eigenvalues
    return replace(static, vectors=_scale(both @ directions[:, -static.vectors.shape[1] :]))


def _scale(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, np.finfo(np.float32).tiny), dtype=np.float32)


def _pad(rows: Sequence[tuple[list[int], list[int]]]) -> PieceBatch:
    size = max(len(ids) for ids, _ in rows)
    ids, mask = torch.zeros(2, len(rows), size, dtype=torch.long)
    word = torch.full_like(ids, -1)
    for number, (own, words) in enumerate(rows):
        ids[number, : len(own)] = torch.tensor(own)
        mask[number, : len(own)] = 1
        word[number, : len(own)] = torch.tensor(words)
    return PieceBatch(ids, mask, word)


def _load_encoder(name: str) -> tuple[nn.Module, Any, int]:
    """Return the network, its fast tokenizer and how many pieces it reads at once."""
    try:
        import transformers
    except ImportError as error:
        raise ConfigError("A teacher needs transformers: pip install 'modern-elmo[distill]'.") from error
    folder = _find_folder(name)
    try:
        with _quiet(transformers):
            # RoBERTa's tokenizers accept single words only with add_prefix_space.
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, use_fast=True, add_prefix_space=True)
            network, report = transformers.AutoModel.from_pretrained(folder, output_loading_info=True)
    except Exception as error:  # the library raises errors of every kind; each means that there is no teacher
        raise ConfigError(
            f"The teacher {name} could not be opened ({first_line(error).rstrip('.:')}); give an encoder that "
            "transformers' AutoModel and AutoTokenizer open."
        ) from error
    missing = [key for key in report["missing_keys"] if "pooler" not in key]
    if missing:
        raise ConfigError(
            f"The teacher {name} has no weights for {', '.join(sorted(missing)[:3])} ({len(missing)} in all); its "
            "files do not belong to one model."
        )
    if not getattr(tokenizer, "is_fast", False):
        raise ConfigError(
            f"The teacher {name} has a slow tokenizer ({type(tokenizer).__name__}), which does not report which "
            "word a piece belongs to; choose an encoder with a fast one (tokenizer.json)."
        )
    if network.config.is_encoder_decoder:
        network = network.get_encoder()
    config: Any = network.config
    positions = getattr(config, "max_position_embeddings", None) or MAX_PIECES
    # RoBERTa counts positions from the one after padding's.
    max_pieces = min(MAX_PIECES, int(positions) - 2, int(tokenizer.model_max_length))
    return network.eval().requires_grad_(False), tokenizer, max_pieces


def _find_folder(name: str) -> Path:
    folder = Path(name)
    if not folder.is_dir():
        folder = fetch_from_hub(name, files=FILES)
        if not list(folder.glob("*.safetensors")):
            folder = fetch_from_hub(name, files=(*FILES, OLD_WEIGHTS))
    if not (folder / "config.json").is_file():
        raise ConfigError(
            f"The teacher {name} has no config.json; give the folder or the name of a Hugging Face encoder."
        )
    return folder


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Keep the library's progress bars and advice off the screen."""
    logging = transformers.utils.logging
    verbosity, had_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if had_bars:
            logging.enable_progress_bar()


class Distillation:
    """The teacher of a run: draws lessons, answers them, and measures the similarity on held-out text."""

    def __init__(
        self,
        corpus: PreparedCorpus,
        settings: TrainSettings,
        processes: Processes,
        *,
        num_updates: int,
        teacher: Teacher | None = None,
    ) -> None:
        """Open the teacher that the settings name (unless one is given) for a run of num_updates."""
        assert settings.teacher is not None
        self._settings, self._processes, self._own = settings, processes, settings.teacher
        self._corpus, self._blocks = corpus, corpus.blocks()
        self._boundaries = Vocabulary(corpus.vocabulary).boundaries()
        # Counted from 0; a lesson is in each update whose number, counted from 1, is a multiple of `every`.
        every = self._own.every
        first, last = round(self._own.begin * num_updates), round(self._own.end * num_updates)
        self._updates = range(first + (-first - 1) % every, last, every)
        if not self._updates:
            raise ConfigError(
                f"teacher.every is {every}, but the teacher has only {last - first} of the run's {num_updates} "
                "updates, so it would never teach; lower teacher.every or train longer."
            )
        precision = torch.bfloat16 if self._own.precision == "bfloat16" else torch.float32
        self.teacher = teacher or Teacher(self._own.model, precision=precision, device=processes.device)
        self._held_out: tuple[list[list[str]], Pieces, Tensor] | None = None

    def validate(self, model: Elmo, heads: "TeacherHeads", sentences: Sequence[Sequence[str]]) -> float:
        """Return the mean cosine of the heads' vectors with the teacher's over about VALIDATION_WORDS words."""
        if self._held_out is None:
            chosen = choose_sentences(sentences, self._own.max_words)
            pieces = self.teacher.cut(chosen)
            self._held_out = chosen, pieces, self.teacher.vectors(pieces)
        chosen, pieces, vectors = self._held_out
        layers = torch.from_numpy(np.concatenate(model.embed(chosen, layers="all"), axis=1))
        with torch.no_grad():
            return float(heads(layers[:, pieces.words].to(vectors.device), vectors).mean())

    def lessons(self, *, done: int = 0) -> Iterator[Lesson | None]:
        """Yield the lesson of each window after the first `done` updates.

        It is None in updates without one, and where none of its rows is this process's.
        """
        num_windows = self._settings.windows_per_update
        for window in itertools.count(done * num_windows):
            yield self._make_lesson(window) if window // num_windows in self._updates else None

    def _make_lesson(self, window: int) -> Lesson | None:
        """Draw whole sentences and pack them into rows; with `predict`, also what the language model predicts."""
        sentences = self._draw(window)
        rows = pack_rows([len(sentence) for sentence in sentences])[self._processes.rank :: self._processes.count]
        if not rows:
            return None
        packed = [[sentences[number] for number in row] for row in rows]
        ids, places, predicting, following = self._lay_out(packed)
        pieces = self.teacher.cut([self._corpus.words(sentence) for row in packed for sentence in row])
        num_predicted = sum(len(sentence) + self._is_whole(sentence) for sentence in sentences)
        if not self._own.predict:
            predicting, following, num_predicted = predicting[:, :0], following[:, :0], 0
        return Lesson(
            word_index=torch.from_numpy(ids),
            keep=torch.from_numpy(ids[0] != MARK).float(),
            places=torch.from_numpy(places)[:, pieces.words],
            pieces=pieces,
            num_words=sum(map(len, sentences)),
            predicting=torch.from_numpy(predicting),
            targets=torch.from_numpy(find_targets(self._corpus, following, self._boundaries)),
            num_predicted=num_predicted,
        )

    def _lay_out(self, rows: Sequence[Sequence[Ids]]) -> tuple[Ids, Ids, Ids, Ids]:
        """Return ids (2, T, B), padded with marks; where each word is read (2, N), in T·B; and the places (2, M)
        where the next word or the end is known, with its id in the corpus.
        """
        num_steps = max(sum(len(sentence) + 1 for sentence in row) for row in rows)
        ids = np.full((2, num_steps, len(rows)), MARK, dtype=np.int64)
        places: list[Ids] = []
        predicting: list[Ids] = []
        following: list[Ids] = []
        for column, row in enumerate(rows):
            start = 0
            for sentence in row:
                steps = np.arange(start, start + 1 + len(sentence))  # of the mark and the words
                ids[:, steps[1:], column] = np.stack([sentence, sentence[::-1]])
                places.append(np.stack([steps[1:], steps[:0:-1]]) * len(rows) + column)
                ahead, back = np.append(sentence, MARK), np.append(sentence[::-1], MARK)
                known, after = np.stack([steps, steps]), np.stack([ahead, back])
                if not self._is_whole(sentence):  # truncated: the word after the last one is unknown
                    known, after = np.stack([steps[:-1], steps[1:]]), np.stack([ahead[:-1], back[1:]])
                predicting.append(known * len(rows) + column)
                following.append(after)
                start += len(sentence) + 1
        joined = [np.concatenate(found, axis=1) for found in (places, predicting, following)]
        return ids, joined[0], joined[1], joined[2]

    def _is_whole(self, sentence: Ids) -> bool:
        """Return whether a sentence was certainly not truncated."""
        return len(sentence) < self._own.max_words

    def _draw(self, window: int) -> list[Ids]:
        """Draw sentences from the whole corpus: a block, then one of its sentences."""
        settings, own = self._settings, self._own
        random = np.random.default_rng([settings.seed, _DRAW, window])
        found: list[Ids] = []
        missing = max(1, round(own.share * own.every * settings.num_rows * settings.num_steps))
        while missing > 0:
            shard, start, stop = self._blocks[random.integers(len(self._blocks))]
            ids = self._corpus.read_block(int(shard), int(start), int(stop)).astype(np.int64)
            marks = np.append(np.flatnonzero(ids == MARK), len(ids))
            chosen = random.integers(len(marks) - 1)
            sentence = ids[marks[chosen] + 1 : marks[chosen + 1]][: own.max_words]
            if len(sentence):
                found.append(sentence)
                missing -= len(sentence)
        return found


def choose_sentences(sentences: Sequence[Sequence[str]], max_words: int) -> list[list[str]]:
    """Return every nth sentence, truncated as in training, about VALIDATION_WORDS words in all."""
    truncated = [list(words[:max_words]) for words in sentences if words]
    step = max(1, round(sum(map(len, truncated)) / VALIDATION_WORDS))
    return truncated[::step]


def pack_rows(lengths: Sequence[int]) -> list[list[int]]:
    """Deal sentences, longest first, to rows as long as the longest: each to the first row that has room."""
    size = max(lengths) + 1
    rows: list[list[int]] = []
    room: list[int] = []
    for number in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        needed = lengths[number] + 1  # its mark
        for row, left in enumerate(room):
            if needed <= left:
                rows[row].append(number)
                room[row] -= needed
                break
        else:
            rows.append([number])
            room.append(size - needed)
    return rows


class TeacherHeads(nn.Module):
    """A linear map per layer that learns, or for the average of all; trained beside the model, not in it."""

    def __init__(self, names: Sequence[str], *, num_layers: int, input_dim: int, output_dim: int) -> None:
        """Build the heads that `names` (top, each, average) ask for; num_layers counts the word vectors as one."""
        super().__init__()
        chosen = {"top": range(num_layers - 1, num_layers), "each": range(1, num_layers), "average": [AVERAGE]}
        self._layers = sorted({layer for name in names for layer in chosen[name]})
        self.maps = nn.ModuleList(nn.Linear(input_dim, output_dim) for _ in self._layers)
        for name, parameter in self.named_parameters():
            if name.endswith("weight"):
                draw_glorot(parameter)

    def forward(self, layers: Tensor, vectors: Tensor) -> Tensor:
        """Layers (L+1, N, 2D) and the teacher's vectors (N, E) of length 1 -> the heads' mean cosine (N,)."""
        found = [
            (F.normalize(head(own), dim=-1) * vectors).sum(dim=-1)
            for head, own in zip(self.maps, self._choose(layers), strict=True)
        ]
        return torch.stack(found).mean(dim=0)

    def relate(self, layers: Tensor, vectors: Tensor, words: Tensor) -> Tensor:
        """Return the loss (N,) on the similarities of each word to its other occurrences, without a head.

        `words` (N,) says which are equal. A word with fewer than MIN_OTHERS other occurrences has the loss 0.
        """
        by_word = words.argsort(stable=True)
        counts = torch.unique_consecutive(words[by_word], return_counts=True)[1]
        # Each word apart: nearly all pairs of a lesson are of two different words.
        groups = [places for places in torch.split(by_word, counts.tolist()) if len(places) > MIN_OTHERS]
        losses = layers.new_zeros(len(words))
        if not groups:
            return losses
        chosen, compared = self._choose(layers), []
        for places in groups:
            others = find_others(words[places])
            found = [compare_relations(own[places], vectors[places], others) for own in chosen]
            compared.append(torch.stack(found).mean(dim=0))
        return losses.index_copy(0, torch.cat(groups), torch.cat(compared))

    def _choose(self, layers: Tensor) -> list[Tensor]:
        """Return what learns, (N, 2D) each."""
        return [layers.mean(dim=0) if layer == AVERAGE else layers[layer] for layer in self._layers]


def find_others(words: Tensor) -> Tensor:
    """Return which pairs of (..., n) are different occurrences of one word: (..., n, n)."""
    itself = torch.eye(words.shape[-1], dtype=torch.bool, device=words.device)
    return (words[..., :, None] == words[..., None, :]) & ~itself


def compare_relations(own: Tensor, taught: Tensor, others: Tensor) -> Tensor:
    """Vectors (..., n, D), the teacher's (..., n, E) and which to compare (..., n, n) -> losses (..., n).

    A loss is the KL divergence between the softmax of a vector's cosines with the others, ours and the teacher's;
    0 where there are none.
    """
    expected = _softmax_of_cosines(taught, others, TEACHER_TEMPERATURE)
    found = _softmax_of_cosines(own, others, TEMPERATURE)
    return F.kl_div(found, expected, reduction="none", log_target=True).sum(dim=-1)


def _softmax_of_cosines(vectors: Tensor, others: Tensor, temperature: float) -> Tensor:
    unit = F.normalize(vectors, dim=-1)
    return (unit @ unit.mT / temperature).masked_fill(~others, _NEVER).log_softmax(dim=-1)
