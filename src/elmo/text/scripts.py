"""The scripts a model was trained on, read from its vocabulary, and a warning about text in other scripts."""

import functools
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

LEAST_SHARE = 0.01  # of the letters of a vocabulary, for a script to count as learned
MAX_WORDS = 1000  # examined per text
# First words of Unicode character names that are not the name of a script.
_SAME = {"CJK": "Han", "KANGXI": "Han", "FULLWIDTH": "Latin", "HALFWIDTH": "Katakana"}


class UnfamiliarScriptWarning(UserWarning):
    """The text is in a script that the model has hardly seen, so its vectors mean little."""


@functools.lru_cache(maxsize=4096)
def script_of(character: str) -> str | None:
    """Return the Unicode script of a letter, such as Latin or Han; None for other characters."""
    if not character.isalpha():
        return None
    name = unicodedata.name(character, "").split(" ")[0].split("-")[0]
    return _SAME.get(name, name.capitalize()) or None


def count_scripts(words: Iterable[str]) -> Counter[str]:
    """Return the number of letters per script."""
    found = Counter(script_of(character) for word in words for character in word)
    found.pop(None, None)
    return found  # type: ignore[return-value]


class ScriptWatch:
    """Warns once if more than half of the letters of a text are in scripts that are rare in a vocabulary."""

    def __init__(
        self, vocabulary: Sequence[str] | None, models_by_script: Callable[[], Mapping[str, str]] = dict
    ) -> None:
        """`models_by_script` returns the name of a model to use for a script, if one is installed."""
        self._vocabulary, self._models_by_script = vocabulary, models_by_script
        self._has_warned = False

    @functools.cached_property
    def learned(self) -> frozenset[str] | None:
        """Return the scripts of the vocabulary; None without a vocabulary."""
        if not self._vocabulary:
            return None
        counts = count_scripts(self._vocabulary)
        least = LEAST_SHARE * counts.total()
        return frozenset(script for script, count in counts.items() if count >= least)

    def check(self, sentences: Iterable[Sequence[str]]) -> None:
        """Warn if these sentences of words are in an unfamiliar script."""
        if self._has_warned or self._vocabulary is None:
            return
        foreign: list[str] = []
        num_words = 0
        for sentence in sentences:
            if num_words >= MAX_WORDS:
                break
            num_words += len(sentence)
            foreign += [word for word in sentence if not word.isascii()]
        if 2 * len(foreign) < num_words or not foreign or not self.learned:
            return  # most words are in ASCII, whose letters are Latin
        counts = count_scripts(word for sentence in sentences for word in sentence[:MAX_WORDS])
        unseen = Counter({script: count for script, count in counts.items() if script not in self.learned})
        if 2 * unseen.total() > counts.total():
            self._has_warned = True
            script = unseen.most_common(1)[0][0]
            name = self._models_by_script().get(script)
            warnings.warn(
                f"Most letters of this text are {script}, but the model was trained on "
                f"{' and '.join(sorted(self.learned))} text, so its answers mean little here; use "
                f"{'a model for this language' if name is None else f'the model {name}'}.",
                UnfamiliarScriptWarning,
                stacklevel=4,
            )
