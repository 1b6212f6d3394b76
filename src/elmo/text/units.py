"""The caller's words -> the tokens of a model, according to its tokenization and aliases.

Each token has an id. A token is a word or, in scripts without spaces, a letter. The vector of a word of several
tokens is the mean of their vectors. This module also splits texts into words, and warns if a text is in a script that
the model has hardly seen.
"""

import functools
import itertools
import unicodedata
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from elmo.config import TokenizationConfig
from elmo.text.sentence_input import Tokenizer
from elmo.text.tokenize import DEFAULT_SCRIPTS, Word, split_on_spaces, tokenize

_CACHED_WORDS = 200_000
_FULL_WIDTH = {code: code - 0xFEE0 for code in (*range(0xFF10, 0xFF1A), *range(0xFF21, 0xFF3B), *range(0xFF41, 0xFF5B))}


@dataclass(frozen=True)
class TokenizedSentence:
    """The tokens of a sentence, and how many each word has; None if each word is one token."""

    tokens: list[str]
    num_tokens: list[int] | None = None

    def ranges(self) -> list[tuple[int, int]]:
        """Return the half-open range of tokens of each word."""
        ends = [*itertools.accumulate(self.num_tokens or [1] * len(self.tokens), initial=0)]
        return [*itertools.pairwise(ends)]


class Tokenization:
    """How one model splits text into words, and words into tokens."""

    def __init__(self, config: TokenizationConfig | None = None, aliases: Mapping[str, str] | None = None) -> None:
        """`aliases`: the replacements of tokens, such as Simplified for Traditional characters."""
        self.config = config or TokenizationConfig()
        self.aliases = dict(aliases or {})
        self._cache: dict[str, tuple[str, ...]] = {}

    @property
    def reads_characters(self) -> bool:
        """Whether a word may have several tokens."""
        return self.config.units == "characters"

    def __call__(self, text: str) -> list[Word]:
        """Return the words of a text with their offsets; in scripts without spaces they are tokens."""
        return split_on_spaces(text) if self.config.split_on_spaces else tokenize(text, self.config.scripts)

    def tokenizer(self, *, on_spaces: bool = False) -> Tokenizer:
        """Return the function that splits texts into words: this object, or a function that splits only at spaces."""
        return split_on_spaces if on_spaces else self

    def split_words(self, words: Sequence[str], *, whole: Collection[str] = ()) -> TokenizedSentence:
        """Return the tokens of the words of one sentence; `whole` words are not split."""
        if not self.reads_characters and not self.aliases:
            return TokenizedSentence(list(words))
        pieces = [(word,) if word in whole else self._split(word) for word in words]
        tokens = [token for word in pieces for token in word]
        return TokenizedSentence(tokens, None if len(tokens) == len(pieces) else [len(word) for word in pieces])

    def count(self, words: Sequence[str]) -> int:
        """Return the number of tokens of some words."""
        return sum(len(self._split(word)) for word in words) if self.reads_characters else len(words)

    def join(self, tokens: Sequence[str]) -> str:
        """Return consecutive tokens as text, without spaces before and after letters of the scripts."""
        scripts = () if self.config.split_on_spaces else self.config.scripts
        text = ""
        for token in tokens:
            needs_space = text and script_of(text[-1]) not in scripts and script_of(token[:1]) not in scripts
            text += f" {token}" if needs_space else token
        return text

    def _split(self, word: str) -> tuple[str, ...]:
        tokens = self._cache.get(word)
        if tokens is None:
            pieces = [piece.text for piece in self(word)] if self.reads_characters and len(word) > 1 else []
            tokens = tuple(map(self._replace, pieces or [word]))
            if len(self._cache) >= _CACHED_WORDS:
                self._cache = {}
            self._cache[word] = tokens
        return tokens

    def _replace(self, token: str) -> str:
        """Return the replacement of a token: its alias, or ASCII for full-width letters."""
        alias = self.aliases.get(token)
        if alias is not None or not self.reads_characters:
            return token if alias is None else alias
        return token if token.isascii() else token.translate(_FULL_WIDTH)


LEAST_SHARE = 0.01  # of a vocabulary's letters; a script with a smaller share does not count as learned
MAX_WORDS = 1000  # examined per text
# First words of Unicode character names that differ from the name of the script.
_SCRIPT_NAMES = {"CJK": "Han", "KANGXI": "Han", "FULLWIDTH": "Latin", "HALFWIDTH": "Katakana"}


class UnfamiliarScriptWarning(UserWarning):
    """The text is in a script that the model has hardly seen, so its vectors mean little."""


@functools.lru_cache(maxsize=4096)
def script_of(character: str) -> str | None:
    """Return the Unicode script of a letter, such as Latin or Han; None for other characters."""
    if not character.isalpha():
        return None
    name = unicodedata.name(character, "").split(" ")[0].split("-")[0]
    return _SCRIPT_NAMES.get(name, name.capitalize()) or None


def count_scripts(words: Iterable[str]) -> Counter[str]:
    """Return the number of letters per script."""
    counts = Counter(script_of(character) for word in words for character in word)
    counts.pop(None, None)
    return counts  # type: ignore[return-value]


SUBSTANTIAL_SHARE = 0.3  # of a text's words; from this share on, a script without spaces determines its language


def main_script(texts: Iterable[str]) -> str | None:
    """Return the script that best indicates the language of some texts, or None if they have no letters.

    In scripts without spaces each letter counts as a word. Such texts often contain names in Latin letters, so a
    share of SUBSTANTIAL_SHARE is enough for them: 我用Python写代码 is Chinese.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        previous = None
        for character in text:
            script = script_of(character)
            if script is not None and (script in DEFAULT_SCRIPTS or script != previous):
                counts[script] += 1
            previous = script
    for script in DEFAULT_SCRIPTS:
        if counts[script] >= SUBSTANTIAL_SHARE * counts.total() > 0:
            return script
    return counts.most_common(1)[0][0] if counts else None


class ScriptWatch:
    """Warns once if more than half of the letters of a text are in scripts that are rare in a vocabulary."""

    def __init__(self, vocabulary: Sequence[str] | None, models_by_script: Mapping[str, str]) -> None:
        """`models_by_script`: the model to recommend for each script."""
        self._vocabulary, self._models_by_script = vocabulary, models_by_script
        self._has_warned = False
        self._learned: frozenset[str] | None = None

    @property
    def learned(self) -> frozenset[str] | None:
        """Return the scripts of the vocabulary; None without a vocabulary."""
        if self._vocabulary and self._learned is None:
            counts = count_scripts(self._vocabulary)
            least = LEAST_SHARE * counts.total()
            self._learned = frozenset(script for script, count in counts.items() if count >= least)
        return self._learned

    def check(self, sentences: Iterable[Sequence[str]]) -> None:
        """Warn if these sentences of words are in an unfamiliar script."""
        if self._has_warned or self._vocabulary is None:
            return
        words = [*itertools.islice(itertools.chain.from_iterable(sentences), MAX_WORDS)]
        if 2 * sum(map(str.isascii, words)) > len(words) or not self.learned:
            return  # most words are in ASCII, whose letters are Latin
        counts = count_scripts(words)
        unseen = Counter({script: count for script, count in counts.items() if script not in self.learned})
        if 2 * unseen.total() > counts.total():
            self._has_warned = True
            script = unseen.most_common(1)[0][0]
            name = self._models_by_script.get(script)
            advice = f"the model {name}" if name else "a model for this language"
            warnings.warn(
                f"Most letters of this text are {script}, but the model was trained on "
                f"{' and '.join(sorted(self.learned))} text, so its results are unreliable here; use {advice}.",
                UnfamiliarScriptWarning,
                stacklevel=4,
            )
