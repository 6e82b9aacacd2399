"""Documents cannot drift: their Python runs, what they say is printed is printed, and their commands exist."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import typer

import steadfed
from steadfed import aggregators, errors
from steadfed._cli.app import app
from steadfed._cli.reference import PAGES

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("benchmarks/*.md"),
        *ROOT.glob("examples/**/*.md"),
    ]
)
BLOCK = re.compile(r'^ *```(\w+)(?: title="([^"]+)")?\n(.*?)^ *```$', re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
SEPARATORS = frozenset({"&&", "||", ";", "|", ">", "&"})

every_document = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


@pytest.mark.portable
@every_document
def test_no_block_and_no_link_of_a_document_escapes_these_tests(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(re.findall(r"^ *```", text, re.MULTILINE)) == 2 * len(BLOCK.findall(text))
    outside_or_within = re.findall(r"\]\((?:https?:|#)", text)
    assert text.count("](") == len(outside_or_within) + len(LINK.findall(text))


def test_there_is_something_of_every_kind_to_be_tested() -> None:
    blocks = [block for path in DOCUMENTS for block in BLOCK.findall(path.read_text(encoding="utf-8"))]
    assert {language for language, _, _ in blocks} >= {"python", "text", "console", "toml"}
    assert any(title for _, title, _ in blocks)
    assert {words[0] for path in DOCUMENTS for words in _commands(path)} >= {"steadfed", "make"}
    assert any(LINK.findall(path.read_text(encoding="utf-8")) for path in DOCUMENTS)
    assert len(PAGES) > 1


@every_document
def test_documents_for_users_use_public_names_only(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    used = re.findall(r"^ *(?:from|import|:::) (steadfed[\w.]*)", text, re.MULTILINE)
    assert [name for name in used if any(part.startswith("_") for part in name.split("."))] == []


def test_every_public_package_has_a_page_of_its_names() -> None:
    pages = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob("docs/api/*.md"))
    packages = {f"steadfed.{path.parent.name}" for path in ROOT.glob("src/steadfed/[a-z]*/__init__.py")}
    shown = set(re.findall(r"^::: (steadfed(?:\.\w+)?)", pages, re.MULTILINE))
    assert shown == packages | {"steadfed", "steadfed.errors", "steadfed.extend"}


def test_the_page_of_the_package_itself_speaks_of_every_name_that_is_no_rule() -> None:
    page = (ROOT / "docs/api/steadfed.md").read_text(encoding="utf-8")
    for name in set(steadfed.__all__) - set(dir(aggregators)):
        assert f"`{name}`" in page, name


@every_document
@pytest.mark.usefixtures("_registries")
def test_python_blocks_run_and_print_what_is_shown(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a page follow each other in a new folder; a block with a title is a file in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    loaded = set(sys.modules)
    names: dict[str, object] = {"__name__": "__main__"}
    printed = None
    for language, title, body in BLOCK.findall(path.read_text(encoding="utf-8")):
        if title:
            Path(title).write_text(body, encoding="utf-8")
        elif language == "python":
            printed = _printed(body, path, names)
        elif language == "text" and printed:
            assert printed.strip() == body.strip()
            printed = None
    for name in set(sys.modules) - loaded:
        if getattr(sys.modules[name], "__file__", None) and tmp_path in Path(str(sys.modules[name].__file__)).parents:
            del sys.modules[name]


def _printed(body: str, path: Path, names: dict[str, object]) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(body, str(path), "exec"), names)  # noqa: S102  the project's own documents
    return output.getvalue()


@every_document
def test_commands_in_console_blocks_exist_with_these_options(path: Path) -> None:
    for words in _commands(path):
        if Path(words[0]).name == "steadfed":
            _parse(words[1:])
        elif words[0] == "make" and len(words) > 1:
            verbs = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
            assert words[1] in verbs, words


def _commands(path: Path) -> Iterator[list[str]]:
    """Yield the words of every command, without comments, up to what the shell would do with its output."""
    for language, _, body in BLOCK.findall(path.read_text(encoding="utf-8")):
        if language != "console":
            continue
        for line in body.replace("\\\n", " ").splitlines():
            words: list[str] = []
            for word in shlex.split(line, comments=True):
                if word in SEPARATORS:
                    yield words
                    words = []
                else:
                    words.append(word.removeprefix("$ "))
            if words:
                yield words


def _parse(words: list[str]) -> None:
    """Find the command, and have its parser read options and arguments; nothing is run, no file need exist."""
    command: click.Command = typer.main.get_command(app)
    names = ["steadfed"]
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        assert words[0] in command.commands, f"{' '.join(names)} has no command {words[0]!r}"
        names.append(words[0])
        command, words = command.commands[words[0]], words[1:]
    context = click.Context(command, info_name=" ".join(names))
    values, rest, _ = command.make_parser(context).parse_args(list(words))
    assert not rest, f"{' '.join(names)} takes no argument {rest}"
    for parameter in command.params:
        value = values.get(str(parameter.name))
        if value is not None and not isinstance(parameter.type, click.Path):
            parameter.type_cast_value(context, value)


@every_document
def test_toml_blocks_are_toml(path: Path) -> None:
    for language, _, body in BLOCK.findall(path.read_text(encoding="utf-8")):
        if language == "toml":
            tomllib.loads(body)


@every_document
def test_links_lead_somewhere(path: Path) -> None:
    for target in LINK.findall(path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


@pytest.mark.portable
@pytest.mark.parametrize("page", PAGES)
def test_generated_pages_are_what_the_code_says(page: str) -> None:
    assert (ROOT / "docs" / page).read_text(encoding="utf-8") == PAGES[page](), "run `make docs`"


def test_readme_shows_the_two_commands_first() -> None:
    commands = re.findall(r"^make \w+", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert commands[:2] == ["make demo", "make test"]


def test_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 160


def test_the_comparison_of_the_readme_is_a_part_of_that_of_the_site() -> None:
    short, whole = (
        re.search(r"^\| \| steadfed .*?\n\n", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
        for name in ("README.md", "docs/peers.md")
    )
    assert short is not None
    assert whole is not None
    rows, every = short[0].strip().splitlines(), whole[0].strip().splitlines()
    assert rows == [row for row in every if row in rows]
    assert len(rows) < len(every)


def test_the_faq_speaks_of_every_error() -> None:
    text = (ROOT / "docs/faq-of-errors.md").read_text(encoding="utf-8")
    tree = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.SteadfedError)]
    assert len(tree) > 10
    for each in tree:
        assert f"`{each.__name__}`" in text, each.__name__


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for path in {*ROOT.glob("docs/**/*.md")} - {*ROOT.glob("docs/decisions/*.md")}:  # docs/hooks.py lists decisions
        assert f" {path.relative_to(ROOT / 'docs').as_posix()}\n" in navigation, path


def test_architecture_stays_short_and_names_files_that_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    for name in re.findall(r"`(src/steadfed/[\w/]+\.py)`", text):
        assert (ROOT / name).exists(), name
