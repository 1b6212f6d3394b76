"""Raw text -> words with their character offsets; nothing is normalized, escaped or dropped.

The rules follow the Moses tokenizer, whose output the official models were trained on, except where a
word of today (an address, an emoji) or another script calls for better. Sentences are not split here.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import NamedTuple


class Word(NamedTuple):
    """A word and its offsets: `source[start:end] == text`."""

    text: str
    start: int
    end: int


# A period after these belongs to them, unless the text ends there.
_ABBREVIATIONS = """
    Mr Mrs Ms Mx Messrs Dr Drs Prof Rev Hon Pres Gov Sen Rep Reps Supt Fr Sr Jr Esq Ph
    Adm Brig Capt Cmdr Col Cpl Gen Lt Maj Pvt Sgt St Mt Ft Ave Blvd Rd Hwy
    Inc Ltd Corp Co Bros Dept Univ Assn Bldg
    vs v etc cf ca al approx ed eds resp incl viz
"""
# These are also ordinary words, or units at the end of a sentence, so a number must follow.
_ABBREVIATIONS_BEFORE_NUMBERS = """
    No Nos Nr Vol Vols vol vols p pp Fig Figs fig Eq eq Ch ch Sec sec Art Op c est
    Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec
"""

# Marks and joiners belong to the letter they follow. Han is written without spaces: each character is a word.
_ALPHA = r"[[\p{L}\p{Nl}\p{M}\x{00AD}\x{200C}\x{200D}]&&[^\p{Han}]]"
_ALNUM = r"[[\p{L}\p{Nl}\p{M}\x{00AD}\x{200C}\x{200D}\p{Nd}]&&[^\p{Han}]]"
_APOSTROPHE = "['’]"
_SPACE = r"\s\x1C-\x1F"  # with these four separators, exactly what str.isspace says


def _pattern() -> str:
    """Return the alternatives for one word, tried in this order at the end of the word before."""
    # Most words are plain and end at a space or comma: deciding that first doubles the speed.
    plain = rf"{_ALNUM}++(?=[{_SPACE};)!?]|,[{_SPACE}])|,(?=[{_SPACE}])"

    # An address ends before the punctuation of its sentence.
    outside = rf"{_SPACE}<>\"“”«»()。、，「」（）"
    closing = rf"[.,;:!?'’…\]}}]{{0,9}}(?:[{outside}]|\z)"
    url = rf"(?i:https?://|ftp://|www\.)(?:(?!{closing})[^{outside}]|\([^{_SPACE}()]*+\))++"
    # 64 is the standard's limit; without one, text such as a+a+a+... would take quadratic time.
    email = rf"{_ALNUM}(?>[{_ALNUM}._%+-]{{0,63}})@[{_ALNUM}-]++(?:\.[{_ALNUM}-]++)++"

    # don't -> don 't, 1990's -> 1990 's, and as Moses has it, rock'n'roll -> rock 'n'roll.
    clitic = (
        rf"(?<=[\p{{L}}\p{{M}}]){_APOSTROPHE}(?=\p{{L}})(?:\p{{L}}{_APOSTROPHE}(?=\p{{L}}))?+"
        rf"|(?<=[\p{{Nd}}.)\]\"”%]){_APOSTROPHE}(?=s(?!{_ALNUM}))"
    )
    lead = r"-(?!-)|(?<!\.)\.(?=[\p{L}\p{Nd}])"
    # In addition to Moses' period, hyphen and backtick: marks inside Catalan, Hebrew and Armenian words.
    joiner = r"(?:[.`·׳״՚-՟‐‑]|\.?-(?!-)|(?<=\p{Nd}),(?=\p{Nd}))"
    core = rf"{_ALNUM}++(?:{joiner}{_ALNUM}++)*+"
    word = rf"(?:{clitic}|{lead})?+(?:{_abbreviation()}|{core})(?:-(?!-))?+"

    flag = r"[\x{1F1E6}-\x{1F1FF}]{2}"
    tail = r"[\p{M}\x{1F3FB}-\x{1F3FF}\x{E0020}-\x{E007F}]*+"
    symbol = rf"(?:{flag}|[^{_SPACE}]){tail}(?:\x{{200D}}[^{_SPACE}]{tail})*+"
    words = "|".join([plain, url, email, word, r"\.\.++", "--++", symbol])
    return rf"(?![{_SPACE}])(?:{words})"


def _abbreviation() -> str:
    """Return the pattern of words that keep their period, including the period."""
    listed = "|".join(_ABBREVIATIONS.split())
    numeric = "|".join(_ABBREVIATIONS_BEFORE_NUMBERS.split())
    text_ends = rf"\.[\"'’”)\]]*+[{_SPACE}]*+\z"
    kinds = [
        r"(?:\p{L}{1,2}\.)+\p{L}{1,4}",  # U.S. e.g. Ph.D.
        r"\p{Lu}\p{M}*+",  # initials
        rf"(?:{listed})(?!{text_ends})",
        rf"(?:{numeric})(?=\.[{_SPACE}]*+\p{{Nd}})",
        rf"\p{{Lu}}{_ALPHA}{{0,4}}(?=\.[{_SPACE}]++\p{{Ll}})",  # unlisted, but the sentence continues
    ]
    return rf"(?:(?:{_ALNUM}++\.?+)++-)*+(?:{'|'.join(kinds)})\.(?!\.|-?{_ALNUM})"


@functools.cache
def _splitter() -> Callable[[str], list[tuple[str, tuple[int, int]]]]:
    from tokenizers import Regex, pre_tokenizers

    split = pre_tokenizers.Split(Regex(_pattern()), behavior="removed", invert=True)
    found: Callable[[str], list[tuple[str, tuple[int, int]]]] = split.pre_tokenize_str
    return found


def tokenize(text: str) -> list[Word]:
    """Return the words of a text in order; every character that is not whitespace is in exactly one."""
    split = _splitter()
    try:
        return [Word(word, start, end) for word, (start, end) in split(text)]
    except UnicodeEncodeError:
        # Rust strings hold no lone surrogates; a stand-in of the same length keeps the offsets right.
        pieces = split(re.sub("[\ud800-\udfff]", "\ufffd", text))
        return [Word(text[start:end], start, end) for _, (start, end) in pieces]


def split_on_spaces(text: str) -> list[Word]:
    """Return the pieces between U+0020 characters, as the TF-Hub modules did; other whitespace is kept."""
    return [Word(match[0], *match.span()) for match in re.finditer("[^ ]+", text)]
