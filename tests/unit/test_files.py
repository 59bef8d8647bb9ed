"""Files: replaced whole or not at all, and named by what they are where they are no text."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from nhalf.errors import InputError
from nhalf.loading.files import read_text, write_text

if TYPE_CHECKING:
    from pathlib import Path


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
