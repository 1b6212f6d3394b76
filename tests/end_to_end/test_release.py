"""A rehearsed release: built, checked, installed from a local index; and the steps of the Dockerfile."""

import contextlib
import functools
import http.server
import importlib.util
import json
import os
import re
import runpy
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import urllib.request
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

from elmo import __version__

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
slow = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def release():
    """The functions of .ci/release.py."""
    return runpy.run_path(str(ROOT / ".ci" / "release.py"))


def run(*command, **options):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{command}: {(done.stdout + done.stderr)[-4000:]}"
    return done.stdout


def test_one_command_writes_the_version_everywhere(release, tmp_path):
    for name in ("src/elmo/__init__.py", "CITATION.cff", "CHANGELOG.md", "packages/elmo-js/package.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    with pytest.raises(SystemExit, match="CHANGELOG.md has nothing that matches "):
        release["set_version"](tmp_path, "9.8.7", "2030-01-02")
    assert __version__ in (tmp_path / "src/elmo/__init__.py").read_text()
    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text(changelog.read_text().replace("## [", "## [Unreleased]\n\n- New.\n\n## [", 1))
    release["set_version"](tmp_path, "9.8.7", "2030-01-02")
    assert '__version__ = "9.8.7"' in (tmp_path / "src/elmo/__init__.py").read_text()
    assert "## [9.8.7] - 2030-01-02\n\n- New.\n" in changelog.read_text()
    citation = yaml.safe_load((tmp_path / "CITATION.cff").read_text())
    assert (citation["version"], citation["date-released"]) == ("9.8.7", "2030-01-02")
    assert json.loads((tmp_path / "packages/elmo-js/package.json").read_text())["version"] == "9.8.7"


def test_an_incomplete_release_is_refused(release, tmp_path):
    for tag in ("cp312-cp312-linux_x86_64", "py3-none-linux_x86_64"):
        with zipfile.ZipFile(tmp_path / f"modern_elmo-{__version__}-{tag}.whl", "w") as wheel:
            wheel.writestr("elmo/__init__.py", "")
    (tmp_path / "notes.txt").touch()
    faults = "\n".join(release["list_faults"](tmp_path, __version__, 4))
    for fault in (
        "notes.txt is no part",
        "There are 2 wheels",
        "distributions are []",
        "for every Python 3",
    ):
        assert fault in faults
    assert "lacks elmo/models/en-small/weights.safetensors" in faults and "must have the compiled" in faults


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_name_actions_by_hash_and_ask_for_few_rights(path):
    workflow = yaml.safe_load(path.read_text())
    used = [step["uses"] for job in workflow["jobs"].values() for step in job.get("steps", ()) if "uses" in step]
    assert used and [name for name in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", name)] == []
    assert workflow["permissions"] == {"contents": "read"}


def test_publishing_needs_no_stored_secret_and_counts_the_files():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "wheels.yml").read_text())
    publish = workflow["jobs"]["publish"]
    assert publish["permissions"] == {"id-token": "write"} and "secrets" not in json.dumps(workflow)
    num_wheels = len(workflow["jobs"]["wheels"]["strategy"]["matrix"]["include"])
    assert f"release.py check dist --wheels {num_wheels}" in json.dumps(workflow["jobs"]["check"])
    assert "check" in publish["needs"]


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """The source distribution and the wheel that is built from it."""
    for module in ("build", "twine", "hatchling"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed; it is in the extra modern-elmo[dev]")
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("release") / "dist"
    environment = {**os.environ, "ELMO_BUILD_KERNELS": "require"}
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, env=environment)
    return folder


class TestRelease:
    pytestmark = slow

    def test_the_distribution_is_complete(self, dist, release):
        assert release["list_faults"](dist, __version__, 1) == []
        run(sys.executable, "-m", "twine", "check", "--strict", *dist.iterdir())

    def test_without_a_compiler_the_source_gives_a_wheel_for_numpy(self, dist, tmp_path):
        with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
            archive.extractall(tmp_path, filter="data")
        (source,) = tmp_path.iterdir()
        for model in (source / "src/elmo/models").glob("*/*.safetensors"):
            model.write_bytes(b"")  # packing them takes longest
        environment = {name: value for name, value in os.environ.items() if name != "CC"} | {"PATH": str(tmp_path)}
        command = (sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", tmp_path, source)
        run(*command, env=environment)
        assert [path.name for path in tmp_path.glob("*.whl")] == [f"modern_elmo-{__version__}-py3-none-any.whl"]

    def test_the_readme_works_after_installing_from_an_index(self, dist, tmp_path):
        place = tmp_path / "simple" / "modern-elmo"
        place.mkdir(parents=True)
        for path in dist.iterdir():
            (place / path.name).symlink_to(path)
        venv.create(tmp_path / "fresh", with_pip=True)
        program = tmp_path / "fresh" / "bin" / "python"
        with serve_folder(tmp_path) as address:
            options = ["--extra-index-url", f"{address}/simple", "--only-binary", "modern-elmo", "-q"]
            constraints = ["-c", ROOT / "constraints.txt"]
            clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
            command = [program, "-m", "pip", "install", *options, *constraints, f"modern-elmo=={__version__}"]
            run(*command, env=clean)
        # No compiler, nothing of this clone, no writable home.
        environment = {"PATH": str(program.parent), "HOME": str(tmp_path / "none"), "HF_HUB_OFFLINE": "1"}
        check_readme(program, environment, tmp_path)
        listed = json.loads(run(program, "-m", "pip", "list", "--format", "json", env=clean))
        installed = {entry["name"] for entry in listed}
        assert {"modern-elmo", "numpy"} <= installed and "torch" not in installed
        if importlib.util.find_spec("cyclonedx_py") is None:
            pytest.skip("cyclonedx-bom is not installed; it is in the extra modern-elmo[dev]")
        bom = json.loads(run(sys.executable, "-m", "cyclonedx_py", "environment", program))
        assert installed <= {component["name"] for component in bom["components"]}


@contextlib.contextmanager
def serve_folder(folder):
    """Yield the address of a folder as a package index."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def check_readme(program, environment, folder):
    """Run the first command and the first Python lines of the README in an environment."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    command = re.search(r"<!-- newcomer: main -->\n```bash\n.*? && (elmo .*?)\n```", readme, re.S)[1]
    answer = run(shutil.which("bash"), "-c", command, env=environment, cwd=folder)
    rows = [[float(cell) for cell in row.split()[1:]] for row in answer.splitlines()[-3:]]
    assert rows[0][1] > max(rows[0][2], rows[1][2])  # the two money banks are the most similar
    code = re.search(r"```python\n(.*?)```", readme, re.S)[1]
    run(program, "-c", code, env=environment, cwd=folder)


# --- the image

BASE_IMAGE_MB = 125  # python:3.13-slim, unpacked
IMAGE_MB = 350


def read_dockerfile():
    """Return the stages of the Dockerfile, each a list of instructions with their arguments."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.M).replace("\\\n", " ")
    instructions = [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]
    starts = [at for at, (name, _) in enumerate(instructions) if name == "FROM"]
    return [instructions[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]


def test_the_image_has_no_root_no_shell_command_and_a_health_check():
    build, final = read_dockerfile()
    assert dict(build)["FROM"].split()[0] == dict(final)["FROM"]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", dict(final)["USER"])
    assert json.loads(dict(final)["ENTRYPOINT"]) == ["elmo", "serve"]
    assert json.loads(dict(final)["HEALTHCHECK"].partition("CMD ")[2])[0] == "python"
    copied = [arguments for name, arguments in final if name == "COPY"]
    assert copied == ["--from=build /opt/elmo /opt/elmo"]
    ignored = (ROOT / ".dockerignore").read_text().split()
    for source in (word for name, words in build if name == "COPY" for word in words.split()[:-1]):
        assert (ROOT / source).exists() and f"!{source}" in ignored


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.needs("/proc")
def test_the_steps_of_the_image_give_a_small_server_that_writes_nothing():
    """Run them in a folder in place of the file system of a container."""
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc, which the image installs")
    build, final = read_dockerfile()
    with tempfile.TemporaryDirectory() as folder:
        follow_build(build, folder)
        size = sum(path.lstat().st_size for path in Path(folder, "opt").rglob("*")) >> 20
        assert size + BASE_IMAGE_MB < IMAGE_MB
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        settings = dict(word.split("=", 1) for word in within(folder, dict(final)["ENV"]).split())
        settings["PATH"] = settings["PATH"].replace("$PATH", os.environ["PATH"])
        settings |= {"ELMO_SERVE_PORT": str(port), "HOME": "/nonexistent", "TMPDIR": "/nonexistent"}
        user = dict(final)["USER"].partition(":")[0]
        # A mount of its own makes the folder read-only; a user namespace gives the user of the image.
        start = f"mount --bind {folder} {folder} && mount -o remount,bind,ro {folder}"
        shell = ["unshare", "-rm", "sh", "-c", f'{start} && exec unshare --map-user={user} "$@"', "sh"]
        tried = subprocess.run([*shell, "touch", f"{folder}/x"], capture_output=True, text=True, check=False)
        if "Read-only file system" not in tried.stderr:
            pytest.skip(f"a read-only folder cannot be made here: {tried.stderr.strip()}")
        server = subprocess.Popen([*shell, *json.loads(dict(final)["ENTRYPOINT"])], env=settings)
        try:
            health = [*json.loads(dict(final)["HEALTHCHECK"].partition("CMD ")[2])]
            for _ in range(240):
                assert server.poll() is None
                if subprocess.run(health, env=settings, capture_output=True, check=False).returncode == 0:
                    break
                time.sleep(0.5)
            assert f"\nUid:\t{os.getuid()}" in Path(f"/proc/{server.pid}/status").read_text()
            body = json.dumps({"sentences": ["the bank"]}).encode()
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}/embed", body, {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=60) as answer:
                assert len(json.load(answer)["sentences"][0]["words"]) == 2
        finally:
            server.terminate()
            server.wait(60)


def within(folder, text):
    """Return text with the paths of the image inside a folder."""
    return re.sub(r"(?<![\w.\]])/(src|opt)\b", rf"{folder}/\1", text)


def follow_build(instructions, folder):
    """Do the COPY and RUN instructions of the build stage; the packages of the base system are this machine's."""
    arguments = {"SENSES": "no"}
    for name, text in instructions:
        if name == "ARG":
            arguments.update([text.split("=", 1)])
        elif name == "COPY":
            *sources, target = text.split()
            copy(sources, Path(within(folder, target)), is_folder=target.endswith("/"))
        elif name == "RUN" and not text.startswith("apt-get"):
            environment = {**os.environ, **arguments}
            environment.pop("PYTHONPATH", None)
            shell = within(folder, text).replace("python -m venv", f"{sys.executable} -m venv")
            run("sh", "-ec", shell, env=environment, cwd=folder)


def copy(sources, target, *, is_folder):
    for source in sources:
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, target, ignore=shutil.ignore_patterns("__pycache__", "_native.*"))
        else:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / source, target / source if is_folder else target)
