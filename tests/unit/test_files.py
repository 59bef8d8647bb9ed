"""Files: replaced whole or not at all, and named by what they are where they are no text."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nhalf.errors import InputError
from nhalf.files import reading
from nhalf.files.reading import read_text
from nhalf.files.writing import Draft, write_text


def test_what_a_file_replaces_is_kept_until_the_new_one_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("measured", encoding="utf-8")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InputError, match=r"runs\.csv: the file cannot be written: No space left on device"):
        write_text(path, "predicted")
    assert path.read_text(encoding="utf-8") == "measured"
    assert [each.name for each in tmp_path.iterdir()] == ["runs.csv"]


def test_a_file_keeps_its_permissions_and_a_link_its_target(tmp_path: Path) -> None:
    path, link = tmp_path / "runs.csv", tmp_path / "link.csv"
    path.write_text("old", encoding="utf-8")
    path.chmod(0o640)
    link.symlink_to(path)
    write_text(link, "new")
    assert path.read_text(encoding="utf-8") == "new"
    assert (path.stat().st_mode & 0o777, link.is_symlink()) == (0o640, True)


def test_a_folder_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        write_text(tmp_path, "text")


@pytest.mark.parametrize(
    ("content", "do"),
    [
        (gzip.compress(b"model,system"), "unpack it"),
        ("mod\xe8le,system".encode("latin-1"), "save it as UTF-8"),
        (b"PK\x03\x04\xff\xff", "save it as CSV"),
    ],
    ids=["gzip", "latin-1", "workbook"],
)
def test_a_file_that_is_no_text_is_named_by_what_it_is(tmp_path: Path, content: bytes, do: str) -> None:
    path = tmp_path / "runs.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"the file is not UTF-8 text") as caught:
        read_text(path)
    assert do in caught.value.do


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_a_text_is_read_in_any_unicode_encoding_and_with_any_line_ends(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "runs.csv"
    path.write_bytes("model,system\r\nx,y\rz,é".encode(encoding))
    assert read_text(path) == "model,system\nx,y\nz,é"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[" * 100_000, "beyond reason"),
        ('{"a":' * 65 + "1" + "}" * 65, "nested beyond reason"),
        ('{"a": ' + "9" * 41 + "}", "more than 40 digits"),
        ('{"a": ' + "9" * 5000 + "}", "beyond reason"),
        ('{"a": [' + "0," * 2_000_001 + "0]}", "too many values"),
    ],
    ids=["deep", "just too deep", "digits", "many digits", "values"],
)
def test_json_is_bounded(text: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        reading.parse_json(text, where="x.json")
    assert reading.parse_json('{"a":' * 63 + "1" + "}" * 63, where="x.json")


@pytest.mark.parametrize(
    "text", ["x = " + "[" * 50_000, ".".join("a" * 5000) + " = 1", "x = " + "9" * 41, "[" + ".".join("a" * 70) + "]"]
)
def test_toml_is_bounded(text: str) -> None:
    with pytest.raises(InputError):
        reading.parse_toml(text, where="x.toml")
    assert reading.parse_toml('[a.b]\nc = [1.5, 2.5]\nd = "a.b.c"', where="") == {
        "a": {"b": {"c": [1.5, 2.5], "d": "a.b.c"}}
    }


def test_what_unpacks_to_far_more_than_a_log_is_refused() -> None:
    limit = reading.Inflation(2**20, where="x.gz")
    limit.add(200 * 2**20)
    with pytest.raises(InputError, match=r"x\.gz: it unpacks to far more"):
        limit.add(1)
    reading.Inflation(None, where="x.log").add(2**40)  # a file that is not compressed is what it is


def test_a_folder_of_the_whole_machine_is_no_folder_of_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b", "a", ".hidden"):
        (tmp_path / name).write_text("x", encoding="utf-8")
    (tmp_path / "gone").symlink_to("nowhere")
    assert [path.name for path in reading.files_in(tmp_path)] == ["a", "b"]
    monkeypatch.setattr(reading, "_MOST_FILES", 1)
    with pytest.raises(InputError, match="too many files"):
        reading.files_in(tmp_path)


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_a_second_writer_is_refused_and_told_of_the_first(tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    first = Draft(target)
    first.file.write(b"first")
    with pytest.raises(InputError, match=rf"another program is writing this file: process {os.getpid()}, since \d\d:"):
        write_text(target, "second")
    write_text(tmp_path / "out.csv2", "another file is free")
    first.keep()
    assert target.read_text(encoding="utf-8") == "first"
    write_text(target, "second")
    assert names(tmp_path) == ["out.csv", "out.csv2"]


def test_nothing_of_anyone_elses_is_touched(tmp_path: Path) -> None:
    """A planted link, a part of the user's own, and a name that only looks like one of ours."""
    victim = tmp_path / "victim"
    victim.write_text("victim", encoding="utf-8")
    (tmp_path / "out.csv.part").symlink_to(victim)
    planted = tmp_path / "out.csv.nhalf-1-20260101T000000-01234567.part"
    planted.symlink_to(victim)
    (tmp_path / "out.csv.nhalf-mine.part").write_text("mine", encoding="utf-8")
    write_text(tmp_path / "out.csv", "new")
    draft = Draft(tmp_path / "out.csv")
    draft.file.write(b"rows")
    draft.mark()
    draft.file.write(b"half a row")
    assert draft.set_aside() == str(tmp_path / "out.csv.1.part")
    assert (tmp_path / "out.csv.1.part").read_bytes() == b"rows"
    assert victim.read_text(encoding="utf-8") == "victim"
    assert (tmp_path / "out.csv.nhalf-mine.part").read_text(encoding="utf-8") == "mine"
    assert planted.is_symlink()


def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path: Path) -> None:
    left = tmp_path / "out.csv.nhalf-1-20260101T000000-01234567.part"
    left.write_text("half", encoding="utf-8")
    write_text(tmp_path / "out.csv", "new")
    assert names(tmp_path) == ["out.csv"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    code = (
        "import sys, time; from pathlib import Path; from nhalf.files.writing import Draft\n"
        "draft = Draft(Path('out.csv'))\n"
        "try:\n    print('begun', flush=True); time.sleep(60)\n"
        "except KeyboardInterrupt:\n    draft.drop(); sys.exit(130)\n"
    )
    (tmp_path / "out.csv").write_text("old", encoding="utf-8")
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"begun\n"
        assert len(names(tmp_path)) == 2
        running.send_signal(number)
        assert running.wait(timeout=30) == 130
    assert names(tmp_path) == ["out.csv"]
    assert (tmp_path / "out.csv").read_text(encoding="utf-8") == "old"


def test_signals_are_as_before_once_the_file_is_written(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    draft = Draft(tmp_path / "out.csv")
    assert signal.getsignal(signal.SIGTERM) != before
    draft.keep()
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_pipe_is_written_straight_to(tmp_path: Path) -> None:
    pipe = tmp_path / "out.csv"
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_text(encoding="utf-8")))
    got: list[str] = []
    reader.start()
    write_text(pipe, "rows")
    reader.join()
    assert (got, names(tmp_path)) == (["rows"], ["out.csv"])
    write_text(Path(os.devnull), "nothing")
