"""Where files are found, what is checked, and what is said when they are nowhere."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType

import pytest

from steadfed.data._files import Archive, DataFile, read_archive, unpack
from steadfed.data._places import FileSet, cache_folder, places, read_files
from steadfed.errors import CorruptDataError, MissingDataError

CONTENT = b"the right content"


def data_file(name: str = "points", content: bytes = CONTENT, url: str = "http://127.0.0.1:9/points.gz") -> DataFile:
    return DataFile(name=name, size=len(content), sha256=hashlib.sha256(content).hexdigest(), url=url)


def file_set(*files: DataFile, **parameters: object) -> FileSet:
    return FileSet(name="toy", files=files or (data_file(),), folders=("toy", "Toy/raw"), **parameters)  # type: ignore[arg-type]


def put(path: Path, content: bytes = CONTENT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_the_order_of_places_is_the_documented_one(empty_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEADFED_DATA", "/mine")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    found = places(file_set(system_folders=("/usr/toy",)))
    home = empty_machine / "home" / "data"
    assert [str(place) for place in found] == [
        *("/mine", "/mine/toy", "/mine/Toy/raw"),
        *("/usr/toy", "/usr/toy/toy", "/usr/toy/Toy/raw"),
        *("data", "data/toy", "data/Toy/raw"),
        *(str(home), str(home / "toy"), str(home / "Toy/raw")),
        *("/cache/steadfed/toy", "/cache/steadfed/toy/toy", "/cache/steadfed/toy/Toy/raw"),
    ]


def test_the_cache_is_in_the_home_folder_unless_told_otherwise(empty_machine: Path) -> None:
    assert cache_folder("toy") == empty_machine / "home/.cache/steadfed/toy"


@pytest.mark.parametrize("place", ["root/points", "root/toy/points", "root/toy/points.gz", "root/Toy/raw/points.gz"])
def test_files_are_found_below_the_root_packed_or_not(
    empty_machine: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setenv("STEADFED_DATA", str(empty_machine / "root"))
    put(empty_machine / place, gzip.compress(CONTENT, mtime=0) if place.endswith(".gz") else CONTENT)
    assert read_files(file_set()) == {"points": CONTENT}


@pytest.mark.parametrize("place", ["data/Toy/raw/points", "home/data/toy/points", "home/.cache/steadfed/toy/points.gz"])
def test_files_are_found_in_the_usual_places(empty_machine: Path, place: str) -> None:
    put(empty_machine / place)
    assert read_files(file_set()) == {"points": CONTENT}


def test_a_system_folder_is_looked_at(empty_machine: Path) -> None:
    put(empty_machine / "package" / "points")
    assert read_files(file_set(system_folders=(str(empty_machine / "package"),))) == {"points": CONTENT}


def test_a_file_of_another_set_with_the_same_name_is_passed_over(
    empty_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEADFED_DATA", str(empty_machine / "root"))
    put(empty_machine / "root/points", b"the wrong content")
    put(empty_machine / "root/toy/points")
    assert read_files(file_set()) == {"points": CONTENT}


def test_an_explicit_path_is_the_only_place(empty_machine: Path) -> None:
    put(empty_machine / "data/points")
    put(empty_machine / "elsewhere/toy/points")
    assert read_files(file_set(), "elsewhere") == {"points": CONTENT}
    assert read_files(file_set(), "elsewhere/toy/points") == {"points": CONTENT}
    with pytest.raises(MissingDataError, match="nowhere"):
        read_files(file_set(), "nowhere")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"THE RIGHT CONTENT", "expected the SHA-256"),
        (CONTENT[:-1], "expected 17 bytes unpacked, got 16"),
        (CONTENT + b"!", "expected 17 bytes unpacked, got more"),
        (gzip.compress(CONTENT, mtime=0)[:-9], "cannot be read"),
        (gzip.compress(CONTENT, mtime=0)[:10] + b"\xff" * 9, "cannot be read"),
        (gzip.compress(bytes(10**6)), "got more"),
        (b"", "got 0"),
    ],
)
def test_a_wrong_file_is_refused_by_name_with_what_was_expected(
    empty_machine: Path, content: bytes, complaint: str
) -> None:
    wrong = put(empty_machine / "mine/points.gz", content)
    with pytest.raises(CorruptDataError, match=complaint) as caught:
        read_files(file_set(), "mine")
    assert str(wrong.relative_to(empty_machine)) in str(caught.value)


def test_no_more_is_unpacked_than_the_file_can_have(tmp_path: Path) -> None:
    bomb = put(tmp_path / "bomb.gz", gzip.compress(bytes(10**7)))
    assert len(unpack(bomb, 100)) == 101


def test_missing_data_say_where_was_looked_and_what_gets_them(empty_machine: Path) -> None:
    wanted = file_set(data_file(url="https://example.org/points.gz"), commands=("apt install toy",))
    with pytest.raises(MissingDataError) as caught:
        read_files(wanted)
    message = str(caught.value)
    target = empty_machine / "home/.cache/steadfed/toy/points.gz"
    assert "looked in, and there in toy, Toy/raw:\n  data (does not exist)\n" in message
    assert "downloads are off (STEADFED_OFFLINE=1)" in message
    assert "  apt install toy\n" in message
    assert f"  curl -L --create-dirs -o {target} https://example.org/points.gz\n" in message
    assert "  export STEADFED_DATA=" in message


def test_no_network_is_an_error_that_says_so(empty_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEADFED_OFFLINE", "0")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(MissingDataError, match=r"download failed: http://127\.0\.0\.1:9/points\.gz"):
        read_files(file_set())


@pytest.fixture
def server(empty_machine: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("STEADFED_OFFLINE", "0")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    (empty_machine / "served").mkdir()
    handler = partial(_Silent, directory=str(empty_machine / "served"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def test_what_is_nowhere_is_downloaded_once(empty_machine: Path, server: str) -> None:
    served = put(empty_machine / "served/points.gz", gzip.compress(CONTENT, mtime=0))
    wanted = file_set(data_file(url=f"{server}/points.gz"))
    assert read_files(wanted) == {"points": CONTENT}
    served.unlink()
    assert read_files(wanted) == {"points": CONTENT}
    assert (cache_folder("toy") / "points").read_bytes() == CONTENT


def test_a_download_with_the_wrong_hash_is_not_kept(empty_machine: Path, server: str) -> None:
    put(empty_machine / "served/points.gz", gzip.compress(b"THE RIGHT CONTENT", mtime=0))
    with pytest.raises(MissingDataError, match="does not match the known hash"):
        read_files(file_set(data_file(url=f"{server}/points.gz")))
    assert not list(cache_folder("toy").iterdir())


def test_a_broken_file_in_the_cache_is_replaced(empty_machine: Path, server: str) -> None:
    put(cache_folder("toy") / "points", b"broken")
    put(empty_machine / "served/points", CONTENT)
    assert read_files(file_set(data_file(url=f"{server}/points"))) == {"points": CONTENT}


def test_a_cache_that_cannot_be_written_is_an_error_that_says_so(empty_machine: Path, server: str) -> None:
    put(empty_machine / "served/points", CONTENT)
    put(empty_machine / "home", b"a file where the home folder should be")
    with pytest.raises(MissingDataError, match="download failed"):
        read_files(file_set(data_file(url=f"{server}/points")))


def packed_folder(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


FILES = (data_file("one.bin"), data_file("two.bin", b"second"))
MEMBERS = {"folder/readme.html": b"hello", "folder/one.bin": CONTENT, "folder/two.bin": b"second"}


def archived(url: str = "http://127.0.0.1:9/toy.tar.gz", sha256: str = "") -> FileSet:
    why = MappingProxyType({"toy.pickle": "it is pickled"})
    return file_set(*FILES, archive=Archive(name="toy.tar.gz", sha256=sha256, url=url), refused=why)


def test_an_archive_is_read_without_being_unpacked_to_disk(empty_machine: Path) -> None:
    packed_folder(empty_machine / "toy.tar.gz", MEMBERS)
    assert read_files(archived(), "toy.tar.gz") == {"one.bin": CONTENT, "two.bin": b"second"}
    assert read_files(archived(), ".") == {"one.bin": CONTENT, "two.bin": b"second"}
    assert [path.name for path in empty_machine.iterdir()] == ["toy.tar.gz"]


def test_an_archive_is_downloaded_whole(empty_machine: Path, server: str) -> None:
    served = packed_folder(empty_machine / "served/toy.tar.gz", MEMBERS)
    digest = hashlib.sha256(served.read_bytes()).hexdigest()
    assert read_files(archived(f"{server}/toy.tar.gz", digest))["two.bin"] == b"second"


@pytest.mark.parametrize(
    "members",
    [
        {"one.bin": CONTENT + b"!"},
        {"one.bin": CONTENT[:-1]},
        {"filler": bytes((1 << 20) + 1), "one.bin": CONTENT},
        {f"file{i}": b"" for i in range(100)},
    ],
    ids=["larger", "smaller", "large bystander", "many files"],
)
def test_archives_that_are_not_what_they_should_be_are_refused(tmp_path: Path, members: dict[str, bytes]) -> None:
    with pytest.raises(CorruptDataError, match=r"toy\.tar\.gz"):
        read_archive(packed_folder(tmp_path / "toy.tar.gz", members), FILES)


@pytest.mark.parametrize("content", [b"", b"garbage" * 100, gzip.compress(b"garbage" * 100, mtime=0)])
def test_garbage_is_no_archive(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(CorruptDataError, match="cannot be read as a packed folder"):
        read_archive(put(tmp_path / "toy.tar.gz", content), FILES)


def test_a_truncated_archive_is_refused(tmp_path: Path) -> None:
    whole = packed_folder(tmp_path / "toy.tar.gz", MEMBERS)
    whole.write_bytes(whole.read_bytes()[:100])
    with pytest.raises(CorruptDataError, match=r"toy\.tar\.gz"):
        read_archive(whole, FILES)


def test_a_form_that_is_not_read_is_named_with_the_reason(empty_machine: Path) -> None:
    put(empty_machine / "data/toy.pickle")
    with pytest.raises(MissingDataError, match=r"not used: data/toy\.pickle: it is pickled"):
        read_files(archived())
