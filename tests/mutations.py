"""Accidental changes of files, the same in every run of the tests."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path


def mutate(content: bytes, draw: random.Random) -> bytes:
    """Return the content with bytes flipped, cut, inserted, repeated or removed."""
    changed = bytearray(content)
    for _ in range(draw.choice([1, 1, 3, 30])):
        at = draw.randrange(len(changed) + 1)
        match draw.randrange(6):
            case 0 if at < len(changed):
                changed[at] = draw.randrange(256)
            case 1:
                changed[at:at] = draw.randbytes(draw.choice([1, 4, 64]))
            case 2:
                del changed[at : at + draw.choice([1, 8, 200])]
            case 3:
                changed[at:at] = changed[at : at + draw.choice([8, 100])]
            case 4:
                del changed[at:]
            case 5:
                changed[at : at + 8] = draw.choice([b"\xff" * 8, bytes(8), (2**63 - 1).to_bytes(8, "little")])
        if not changed:
            break
    return bytes(changed)


def mutated_folders(folder: Path, work: Path, *, seed: str, count: int) -> Iterator[Path]:
    """Yield copies of a folder, each with one file changed or missing; `work` is the folder they appear in."""
    draw = random.Random(seed)
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    for _ in range(count):
        copy = work / "mutated"
        shutil.copytree(folder, copy)
        path = copy / draw.choice(names)
        if draw.random() < 0.05:
            path.unlink()
        else:
            path.write_bytes(mutate(path.read_bytes(), draw))
        yield copy
        shutil.rmtree(copy)
