"""The two steps of a release that need care: python .ci/release.py version 0.4.0, and … check DIST [--wheels N].

`version` writes the version and today's date where they are stated, and turns the section "Unreleased" of the
changelog into one of the new version. `check` refuses a folder of files that is not the whole release.
"""

import argparse
import datetime
import re
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAME = "modern_elmo"
LIBRARIES = ("elmo/kernels/_native.so", "elmo/kernels/_native.dll")
MODELS = ("elmo/models/en-small/weights.safetensors", "elmo/models/zh-small/weights.safetensors")


def set_version(root: Path, version: str, date: str) -> None:
    """Write a version everywhere; SystemExit if a place is not as expected, and then nothing is written."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise SystemExit(f"{version!r} is no version; write MAJOR.MINOR.PATCH, such as 0.4.0.")
    edits = {
        "src/elmo/__init__.py": [(r'(?<=^__version__ = ")[^"]+', version)],
        "CITATION.cff": [(r"(?<=^version: ).+", version), (r'(?<=^date-released: ")[^"]+', date)],
        "CHANGELOG.md": [(r"^## \[Unreleased\]$", f"## [{version}] - {date}")],
        "packages/elmo-js/package.json": [(r'(?<=^  "version": ")[^"]+', version)],
    }
    texts = {}
    for name, replacements in edits.items():
        text = (root / name).read_text(encoding="utf-8")
        for pattern, new in replacements:
            text, count = re.subn(pattern, new, text, count=1, flags=re.MULTILINE)
            if count != 1:
                raise SystemExit(f"{name} has nothing that matches {pattern!r}; nothing was written.")
        texts[name] = text
    for name, text in texts.items():
        (root / name).write_text(text, encoding="utf-8")


def list_faults(folder: Path, version: str, num_wheels: int) -> list[str]:
    """Return what is wrong with the files of a release, one sentence each."""
    files = sorted(path.name for path in folder.iterdir())
    wheels = [name for name in files if name.endswith(".whl")]
    sdists = [name for name in files if name.endswith(".tar.gz")]
    faults = [f"{name} is no part of a release." for name in files if name not in (*wheels, *sdists)]
    if len(wheels) != num_wheels:
        faults.append(f"There are {len(wheels)} wheels; {num_wheels} were expected, one per platform.")
    if sdists != [f"{NAME}-{version}.tar.gz"]:
        faults.append(f"The source distributions are {sdists}; {NAME}-{version}.tar.gz was expected.")
    else:
        faults += _list_sdist_faults(folder / sdists[0], f"{NAME}-{version}")
    for name in wheels:
        platform = re.fullmatch(rf"{NAME}-{re.escape(version)}-py3-none-(\S+)\.whl", name)
        if not platform:
            faults.append(f"{name} is not {NAME} {version} for every Python 3.")
        names = set(zipfile.ZipFile(folder / name).namelist())
        faults += [f"{name} lacks {model}." for model in MODELS if model not in names]
        if platform and (platform[1] == "any") == bool(names.intersection(LIBRARIES)):
            faults.append(f"{name} must have the compiled library, unless it is for any platform.")
    return faults


def _list_sdist_faults(path: Path, folder: str) -> list[str]:
    with tarfile.open(path) as archive:
        names = set(archive.getnames())
    needed = ["PKG-INFO", "hatch_build.py", "LICENSE", "src/elmo/kernels/csrc/library.c"]
    needed += [f"src/{model}" for model in MODELS]
    faults = [f"{path.name} lacks {name}." for name in needed if f"{folder}/{name}" not in names]
    built = [name for name in names if name.endswith((".so", ".dll", ".pyc"))]
    return faults + [f"{path.name} has {name}, which was built here." for name in built]


def main(arguments: list[str]) -> None:
    """Run a step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(dest="step", required=True)
    version = steps.add_parser("version")
    version.add_argument("version")
    version.add_argument("--date", default=datetime.date.today().isoformat())
    check = steps.add_parser("check")
    check.add_argument("folder", type=Path)
    check.add_argument("--wheels", type=int, default=4)
    options = parser.parse_args(arguments)
    if options.step == "version":
        set_version(ROOT, options.version, options.date)
        return
    text = (ROOT / "src" / "elmo" / "__init__.py").read_text(encoding="utf-8")
    if faults := list_faults(options.folder, re.search(r'__version__ = "(.+)"', text)[1], options.wheels):  # type: ignore[index]
        raise SystemExit("\n".join(faults))


if __name__ == "__main__":
    main(sys.argv[1:])
