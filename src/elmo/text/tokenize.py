"""Raw text -> words with their character offsets, or sentences; nothing is normalized, escaped or dropped.

The rules for words follow the Moses tokenizer, whose output the official models were trained on, except for web
addresses, emoji and other scripts, which Moses splits badly. sentencex splits sentences.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from elmo.errors import InputError


class Word(NamedTuple):
    """A word and its offsets: `source[start:end] == text`."""

    text: str
    start: int
    end: int


# A period after one of these belongs to it, unless the text ends there.
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

# Scripts without spaces, in which each letter is a word; a model's configuration can list others.
DEFAULT_SCRIPTS = ("Han",)
# The long vowel mark is a letter in both kana, but Unicode assigns it to neither script.
_MORE_LETTERS = {"Hiragana": r"\x{30FC}", "Katakana": r"\x{30FC}\x{FF70}"}
_APOSTROPHE = "['’]"
_SPACE = r"\s\x1C-\x1F"  # with these four separators, the same as str.isspace


def _pattern(scripts: tuple[str, ...]) -> str:
    """Return the pattern of one word: alternatives, tried in order from the end of the previous word.

    Each letter of the `scripts` is a word, together with the marks that follow it.
    """
    excluded = "".join(rf"\p{{{script}}}{_MORE_LETTERS.get(script, '')}" for script in scripts)
    # Marks and joiners belong to the letter they follow.
    letters = r"\p{L}\p{Nl}\p{M}\x{00AD}\x{200C}\x{200D}"
    alpha = rf"[[{letters}]&&[^{excluded}]]" if excluded else f"[{letters}]"
    alnum = rf"[[{letters}\p{{Nd}}]&&[^{excluded}]]" if excluded else rf"[{letters}\p{{Nd}}]"
    # Most words are plain and end at a space or comma: matching them first doubles the speed.
    plain = rf"{alnum}++(?=[{_SPACE};)!?]|,[{_SPACE}])|,(?=[{_SPACE}])"

    # An address ends before the punctuation of its sentence.
    outside = rf"{_SPACE}<>\"“”«»()。、，「」（）"
    closing = rf"[.,;:!?'’…\]}}]{{0,9}}(?:[{outside}]|\z)"
    url = rf"(?i:https?://|ftp://|www\.)(?:(?!{closing})[^{outside}]|\([^{_SPACE}()]*+\))++"
    # 64 is the standard's limit; without one, text such as a+a+a+... would take quadratic time.
    email = rf"{alnum}(?>[{alnum}._%+-]{{0,63}})@[{alnum}-]++(?:\.[{alnum}-]++)++"

    # don't -> don 't, 1990's -> 1990 's, and as in Moses, rock'n'roll -> rock 'n'roll.
    clitic = (
        rf"(?<=[\p{{L}}\p{{M}}]){_APOSTROPHE}(?=\p{{L}})(?:\p{{L}}{_APOSTROPHE}(?=\p{{L}}))?+"
        rf"|(?<=[\p{{Nd}}.)\]\"”%]){_APOSTROPHE}(?=s(?!{alnum}))"
    )
    lead = r"-(?!-)|(?<!\.)\.(?=[\p{L}\p{Nd}])"
    # In addition to Moses' period, hyphen and backtick: marks inside Catalan, Hebrew and Armenian words.
    joiner = r"(?:[.`·׳״՚-՟‐‑]|\.?-(?!-)|(?<=\p{Nd}),(?=\p{Nd}))"
    core = rf"{alnum}++(?:{joiner}{alnum}++)*+"
    word = rf"(?:{clitic}|{lead})?+(?:{_abbreviation(alpha, alnum)}|{core})(?:-(?!-))?+"

    flag = r"[\x{1F1E6}-\x{1F1FF}]{2}"
    tail = r"[\p{M}\x{1F3FB}-\x{1F3FF}\x{E0020}-\x{E007F}]*+"
    symbol = rf"(?:{flag}|[^{_SPACE}]){tail}(?:\x{{200D}}[^{_SPACE}]{tail})*+"
    words = "|".join([plain, url, email, word, r"\.\.++", "--++", symbol])
    return rf"(?![{_SPACE}])(?:{words})"


def _abbreviation(alpha: str, alnum: str) -> str:
    """Return the pattern of words that keep their period, including the period."""
    listed = "|".join(_ABBREVIATIONS.split())
    numeric = "|".join(_ABBREVIATIONS_BEFORE_NUMBERS.split())
    text_ends = rf"\.[\"'’”)\]]*+[{_SPACE}]*+\z"
    patterns = [
        r"(?:\p{L}{1,2}\.)+\p{L}{1,4}",  # U.S. e.g. Ph.D.
        r"\p{Lu}\p{M}*+",  # initials
        rf"(?:{listed})(?!{text_ends})",
        rf"(?:{numeric})(?=\.[{_SPACE}]*+\p{{Nd}})",
        rf"\p{{Lu}}{alpha}{{0,4}}(?=\.[{_SPACE}]++\p{{Ll}})",  # unlisted, but the sentence continues
    ]
    return rf"(?:(?:{alnum}++\.?+)++-)*+(?:{'|'.join(patterns)})\.(?!\.|-?{alnum})"


@functools.cache
def _splitter(scripts: tuple[str, ...]) -> Callable[[str], list[tuple[str, tuple[int, int]]]]:
    from tokenizers import Regex, pre_tokenizers

    split = pre_tokenizers.Split(Regex(_pattern(scripts)), behavior="removed", invert=True)
    splitter: Callable[[str], list[tuple[str, tuple[int, int]]]] = split.pre_tokenize_str
    return splitter


def tokenize(text: str, scripts: tuple[str, ...] = DEFAULT_SCRIPTS) -> list[Word]:
    """Return the words of a text in order; every non-whitespace character is in exactly one word.

    Each letter of the `scripts` (Unicode names) is a word.
    """
    split = _splitter(scripts)
    try:
        return [Word(word, start, end) for word, (start, end) in split(text)]
    except UnicodeEncodeError:
        # Rust strings cannot hold lone surrogates; a replacement of the same length keeps the offsets right.
        pieces = split(re.sub("[\ud800-\udfff]", "\ufffd", text))
        return [Word(text[start:end], start, end) for _, (start, end) in pieces]


def split_on_spaces(text: str) -> list[Word]:
    """Return the pieces between U+0020 characters, as the TF-Hub modules did; other whitespace is kept."""
    return [Word(match[0], *match.span()) for match in re.finditer("[^ ]+", text)]


# A blank line or U+2029 ends a paragraph; a single newline may only wrap a line, so sentencex decides.
_PARAGRAPH_END = re.compile(r"(?:\r\n?|\n)[^\S\r\n]*(?:\r\n?|\n)\s*|\u2029\s*")
_LANGUAGE_CODE = re.compile(r"([A-Za-z]{2,3})(?:[-_][A-Za-z0-9]+)*")
_QUOTES_AND_BRACKETS = re.compile(r"[\"“”„«»()\[\]]")
_LONGEST_QUOTATION = 1000


def split_sentences(text: str, *, language: str = "en") -> list[str]:
    """Return the sentences of a text, stripped; no sentence is empty or extends over a blank line.

    `language` is a code such as "en", "de" or "pt-BR". A language without rules in sentencex is
    treated as the nearest language it knows, or else as English. Raises InputError if it is not a code.
    """
    code = _LANGUAGE_CODE.fullmatch(language)
    if code is None:
        raise InputError(f"language is {language!r}, but a code such as 'en', 'de' or 'pt-BR' is expected.")
    sentences = (
        sentence.strip()
        for paragraph in _PARAGRAPH_END.split(text)
        for sentence in _split_paragraph(paragraph, code[1].lower())
    )
    return [sentence for sentence in sentences if sentence]


def _split_paragraph(paragraph: str, language: str) -> Iterator[str]:
    from sentencex import segment

    # Rust strings cannot hold lone surrogates, and sentencex 1.0 panics at some whitespace outside ASCII.
    # Replacing single characters keeps the lengths, and only the lengths of the result are used.
    safe = re.sub(r"[^\S\n]", " ", re.sub("[\ud800-\udfff]", "\ufffd", paragraph))
    start = 0
    for sentence in segment(language, safe):
        # sentencex does not split quotations, so an unclosed quote would extend over the rest of the text.
        is_long = len(sentence) > _LONGEST_QUOTATION
        for piece in segment(language, _QUOTES_AND_BRACKETS.sub(" ", sentence)) if is_long else [sentence]:
            yield paragraph[start : start + len(piece)]
            start += len(piece)
