"""Write aliases.txt into a model folder: Traditional characters and their Simplified forms.

    python recipes/zh-small/aliases.py MODEL

Needs the package opencc; using the model does not. A character is listed if OpenCC converts it to one in the
vocabulary, and if it is itself rare in the training text: 乾 is also Simplified (乾隆), so it stays.
"""

import sys
from pathlib import Path

from opencc import OpenCC

RANGES = ((0x3400, 0xA000), (0xF900, 0xFB00), (0x20000, 0x32000))
CONVERSIONS = ("t2s", "tw2s", "hk2s")
LEAST_RATIO = 10  # of the counts of the Simplified and the Traditional character


def find_aliases(counts: dict[str, int]) -> dict[str, str]:
    """Return the Simplified character of each Traditional one, given the character counts of the training text."""
    converters = [OpenCC(name) for name in CONVERSIONS]
    aliases: dict[str, str] = {}
    for code in (code for start, stop in RANGES for code in range(start, stop)):
        character = chr(code)
        for converter in converters:
            simplified = converter.convert(character)
            is_known = simplified != character and simplified in counts
            if is_known and counts[simplified] >= LEAST_RATIO * counts.get(character, 0):
                aliases.setdefault(character, simplified)
    return aliases


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    words = (folder / "vocabulary.txt").read_text(encoding="utf-8").split("\n")
    numbers = (folder / "word_counts.txt").read_text(encoding="utf-8").split("\n")
    counts = {word: int(number) for word, number in zip(words, numbers, strict=True) if number}
    aliases = find_aliases(counts)
    lines = "".join(f"{traditional} {simplified}\n" for traditional, simplified in aliases.items())
    (folder / "aliases.txt").write_text(lines, encoding="utf-8", newline="\n")
    print(f"Wrote {folder / 'aliases.txt'}: {len(aliases):,} characters.")


if __name__ == "__main__":
    main()
