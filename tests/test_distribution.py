"""What a user gets who does not clone: the source distribution, the wheel made of it, its command."""

from __future__ import annotations

import email
import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
import yaml

ROOT = Path(__file__).parents[1]
BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"
NOT_DISTRIBUTED = ("benchmarks/results/", ".github/", ".gitignore", ".dockerignore")
LEFT_BEHIND = (".git", ".venv", "build", "runs")
CACHES = shutil.ignore_patterns("*.egg-info", "__pycache__", ".*_cache", ".hypothesis")


def left_behind(folder: str, names: list[str]) -> set[str]:
    """Return what of a folder of this tree is no source."""
    return {*CACHES(folder, names), *(LEFT_BEHIND if Path(folder) == ROOT else ())}


def ran(*command: str, cwd: Path, **variables: str) -> str:
    """Return what a command prints, which has to succeed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(  # noqa: S603  this environment's own commands
        command, cwd=cwd, env=environment | variables, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built(kind: str, source: Path, out: Path, **variables: str) -> Path:
    """Build a distribution as pip does, with the build backend that is installed."""
    out.mkdir(exist_ok=True)
    return out / ran(sys.executable, "-c", BUILD, kind, str(out), cwd=source, **variables).splitlines()[-1]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the unpacked source distribution of this tree."""
    tree = tmp_path_factory.mktemp("tree") / "steadfed"
    shutil.copytree(ROOT, tree, ignore=left_behind)
    archive = built("build_sdist", tree, tree.parent / "dist")
    with tarfile.open(archive) as packed:
        packed.extractall(tree.parent, filter="data")
    return tree.parent / archive.name.removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def wheel(sdist: Path) -> Path:
    """Return the wheel that is built of the source distribution, with an address."""
    return built("build_wheel", sdist, sdist.parent / "wheels", STEADFED_HOME="https://host.example/steadfed/")


@pytest.fixture(scope="module")
def clean(wheel: Path) -> Path:
    """Return the folder of commands of an environment that has the wheel, and of here what it depends on only."""
    place = wheel.parents[1] / "clean"
    venv.create(place, with_pip=False)
    python = place / "bin" / "python"
    ran(
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--no-deps",
        "--no-index",
        str(wheel),
        cwd=place,
    )
    # A folder that a .pth file names has its own .pth files left unread: what is edited here is not seen.
    (site,) = place.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return python.parent


def test_the_source_distribution_holds_what_the_repository_does(sdist: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this tree is no clone: what belongs to the repository cannot be asked")
    tracked = ran("git", "ls-files", cwd=ROOT).split("\n")
    wanted = [name for name in tracked if name and not name.startswith(NOT_DISTRIBUTED) and (ROOT / name).exists()]
    assert len(wanted) > 500
    assert [name for name in wanted if not (sdist / name).is_file()] == []


def test_the_wheel_runs_in_an_environment_that_knows_nothing_else_of_the_project(clean: Path, tmp_path: Path) -> None:
    where = ran(str(clean / "python"), "-c", "import steadfed; print(steadfed.__file__)", cwd=tmp_path).strip()
    assert Path(where).is_relative_to(clean.parent)
    assert "rage" in ran(str(clean / "steadfed"), "list", "rules", cwd=tmp_path)
    said = ran(str(clean / "steadfed"), "demo", "--rounds", "2", "--jobs", "1", cwd=tmp_path)
    assert "oracle" in said
    assert "<html" in (tmp_path / "runs" / "demo-1" / "report.html").read_text(encoding="utf-8")


def test_the_wheel_holds_pages_grids_and_types(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT / "src" / "steadfed"
    kinds = {".css", ".html", ".js", ".svg", ".toml", ".typed", ".woff2"}
    wanted = {f"steadfed/{each.relative_to(package)}" for each in package.rglob("*") if each.suffix in kinds}
    assert len(wanted) > 10
    assert wanted <= names
    assert not {name for name in names if name.startswith(("tests/", "benchmarks/"))}


def test_the_long_description_leads_somewhere(wheel: Path, sdist: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
    told = email.message_from_bytes(archive.read(name))
    text = cast("str", told.get_payload())
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert targets
    assert [each for each in targets if not each.startswith(("https://", "#"))] == []
    assert {each.partition(", ")[0] for each in told.get_all("Project-URL", [])} >= {"Homepage", "Changelog", "Issues"}
    assert told["Requires-Python"] == ">=3.11"
    unpublished = (sdist / "PKG-INFO").read_text(encoding="utf-8")
    assert "Project-URL" not in unpublished
    assert [each for each in re.findall(r"\]\(([^)]+)\)", unpublished) if not each.startswith(("https://", "#"))] == []


def test_links_become_absolute_or_text() -> None:
    turned = cast("Callable[[str, str], str]", runpy.run_path(str(ROOT / "setup.py"))["long_description"])
    text = "![A curve](docs/a.png) [rules](docs/rules.md#all) [paper](https://doi.example/1) [here](#below)"
    assert turned(text, "") == " rules [paper](https://doi.example/1) [here](#below)"
    assert turned(text, "https://h/p") == (
        "![A curve](https://h/p/raw/main/docs/a.png) [rules](https://h/p/blob/main/docs/rules.md#all) "
        "[paper](https://doi.example/1) [here](#below)"
    )


def test_an_address_that_is_none_is_refused(sdist: Path) -> None:
    done = subprocess.run(
        [sys.executable, "setup.py", "--version"],
        cwd=sdist,
        env=os.environ | {"STEADFED_HOME": "host.example"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "STEADFED_HOME must be the https:// address of the repository, got 'host.example'" in done.stderr


def test_version_licence_and_title_are_the_same_wherever_they_stand() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (cited["version"], cited["license"]) == (project["version"], project["license"])
    assert cited["title"].startswith(project["name"])
    assert cited["preferred-citation"]["title"] == "Byzantine-Resilient High-Dimensional Federated Learning"


def test_every_python_that_is_promised_is_checked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    workflow = yaml.safe_load((ROOT / ".github/workflows/check.yml").read_text(encoding="utf-8"))
    job = workflow["jobs"]["check"]
    promised = [each.rpartition(" ")[2] for each in project["classifiers"] if re.search(r"Python :: 3\.", each)]
    assert job["strategy"]["matrix"]["python"] == promised
    assert job["steps"][-1]["run"] == "make check test"


def test_images_start_what_the_package_has_and_copy_what_there_is() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    for copied in re.findall(r"^COPY (.+) \S+$", lines, re.MULTILINE):
        assert all((ROOT / each).exists() for each in copied.split())
    allowed = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    copied = {each for names in re.findall(r"^COPY (.+) \S+$", lines, re.MULTILINE) for each in names.split()}
    assert {f"!{each}" for each in copied} == {each for each in allowed if each.startswith("!")}
    assert re.findall(r"^FROM \S+ AS (\w+)$", lines, re.MULTILINE) == ["base", "server", "node"]
    assert "steadfed.flower.superlink" in lines
    assert "flower-supernode" in lines
    assert lines.index("USER 10001") < lines.index("ENTRYPOINT")
