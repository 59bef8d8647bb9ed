"""Files by the names under which loading and the command line know them."""

from nhalf.files.reading import LARGEST_BYTES, read_json, read_text, read_toml
from nhalf.files.writing import write_text

__all__ = ["LARGEST_BYTES", "read_json", "read_text", "read_toml", "write_text"]
