"""Clean lines: what launchers, terminals and web pages add to a log is taken off before a reader sees it."""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter
from typing import TYPE_CHECKING, Final

from nhalf.evidence.readers.protocol import Line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_LOOKALIKES = str.maketrans(
    {
        "\u2502": "|",  # box drawing
        "\u2503": "|",
        "\u2551": "|",
        "\u2212": "-",  # minus sign
        "\u2013": "-",  # en dash
        "\u2192": "->",
        "\u2190": "<-",
        "\u2026": "...",
        "\ufeff": None,  # byte-order mark
        "\u200b": None,  # zero-width space
        "\u3000": " ",
    }
)

# What launchers and log collectors put before a line. Spaces behind a mark stay, apart from one: columns keep their
# place. Times must be followed by a space, so the first cell of a CSV row is no prefix.
_DAY = r"\d{4}[-/]\d\d[-/]\d\d"
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d+)?"
_LEVEL = "INFO|DEBUG|WARNING|WARN|ERROR|NOTICE"
_PREFIX = re.compile(
    r"\s*+(?:"
    r"\[(?:[^\[\]\s]*@)?\d+,\d+\](?:\[[^\[\]]*\])?(?:<std(?:out|err|diag)>)?:? ?"  # Open MPI --tag-output
    r"|<std(?:out|err)>:? ?"
    rf"|\[?{_DAY}[T ]{_CLOCK} ?(?:Z|UTC|[-+]\d\d:?\d\d)?\]? "
    rf"|\[?{_CLOCK}\]? "
    rf"|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{{2}} [ \d]\d {_CLOCK} \d{{4}}(?::|(?=\[|<)) ?"
    rf"|[A-Z][a-z]{{2}} [ \d]\d {_CLOCK} \S+ [^\s\[:]+(?:\[\d+\])?: ?"  # syslog
    r"|\[ ?\d{1,6}\]:? ?"  # MPICH -l
    r"|\[(?:rank|default|RANK) ?\d+\]: ?"  # torchrun --tee, torch.distributed
    r"|\([\w:.-]+,? ?(?:pid|ip)=[^)]*\) ?"  # Ray
    r"|\d{1,6}: "  # srun -l
    r"|\[pod/[^\]\s]*\] ?"  # kubectl logs --prefix
    r"|(?:stdout|stderr) [FP] "  # the container runtime interface, behind a time
    rf"|(?:{_LEVEL}) \d\d-\d\d {_CLOCK} (?:\[[^\]]*\] )?"  # vLLM
    rf"|(?:- )?(?:[\w.]+ - )?(?:{_LEVEL}) (?: *- )?"  # logging with a time before it
    rf"|(?:{_LEVEL}):[\w.]*:"  # logging.basicConfig
    rf"|\| (?:{_LEVEL}) *\| [\w.]+:[\w<>]+:\d+ - "  # loguru, behind a time
    rf"|(?:\[[\w./:-]+\] ?)?\[(?:{_LEVEL})\] ?(?:- )?"
    r"|(?:worker|node|gpu|host|rank|pod|launcher|task)[-_]?\d+(?:[-_.][\w.-]+)?(?:: | +\| |\] )"
    r"|>+ |&gt; ?"  # quoted in a mail or in Markdown
    r")"
)
_NUMBERS = re.compile(r" *+\d++ ++[\d.]")  # a row of a table: what launchers write begins with no two numbers
_FIRST = frozenset("[<>&(|-0123456789MTWFSJAONDEIwnghrplst \t")
_NUMBERED = re.compile(r"\s*(\d{1,7})(?:[:|.\t] ?|\s|$)")
_WORD = re.compile(
    r"(?:[A-Za-z][\w.-]*(?::| +\|)|(?:[A-Za-z][\w.-]* )?[A-Za-z][\w./-]*\[\d+\]:?)(?= |$)"
    r"|(?=[a-z.-]*\d)[a-z0-9][a-z0-9.]*(?:-[a-z0-9.]+)+ [a-z][a-z0-9-]*(?= )"  # stern: a pod and its container
)
_OWN_WORDS: Final = ("sockperf", "Final", "Device", "NOTE")  # a tool's own first word is not a launcher's prefix
_TAG = re.compile(r"</?(?:pre|code|br|p|div|span|tt|samp)\b[^<>]*>", re.IGNORECASE)
_FENCE = re.compile(r"\s*(?:```|~~~)")
_LONG: Final = 160  # characters; the numbers of shorter lines fit a float
_LONGEST: Final = 1 << 14  # characters of a line of a table
_BLANKS = re.compile(r"[ \t]{500,}")
_DIGITS = re.compile(r"\d{41,}")
_MOST = 0.9  # of the lines
_MANY = 0.6  # of the lines
_SOME = 0.05  # of the lines
_HOSTS: Final = 16
_PREFIXES_IN_A_ROW = 4


class Cleaner:
    """Takes off what is not the tool's: colour, prefixes, line numbers, bold, full-width characters.

    Marks that are plain to see are taken off each line. Two can only be told from many lines: pasted line numbers (a
    number that grows by one with each line) and one constant first word (a host or container name).
    """

    def __init__(self, head: Sequence[Line]) -> None:
        """Look at the first lines for line numbers and for a constant first word."""
        basic = [Line(line.number, _basic(line.text)) for line in head]
        self._numbered = _are_numbered(basic)
        stripped = [self._unnumbered(line.text) for line in basic]
        self._words = _constant_words(
            [text[found.end() :] if (found := _PREFIX.match(text)) else text for text in stripped]
        )

    def clean(self, text: str) -> str:
        """Return one line without what was added to it; a number of more digits than any tool prints is none."""
        if len(text) > _LONG:
            text = _BLANKS.sub(" ", _DIGITS.sub("nan", text))
            if len(text) > _LONGEST and '"' not in text:  # of a line of JSON all is read
                text = text[:_LONGEST]
        text = _basic(text)
        if self._numbered:
            text = self._unnumbered(text)
        if not self._words and _NUMBERS.match(text):  # nearly all of a long table
            return text
        for _ in range(_PREFIXES_IN_A_ROW):
            if self._words and (word := next((w for w in self._words if text.lstrip().startswith(w)), "")):
                text = text.lstrip()[len(word) :].removeprefix(" ")
                continue
            if not text or text[0] not in _FIRST:
                break
            found = _PREFIX.match(text)
            if not found:
                break
            text = text[found.end() :]
        return text

    def lines(self, lines: Iterable[Line]) -> Iterator[Line]:
        """Return the lines, cleaned; empty ones and Markdown fences are left out."""
        clean = self.clean
        for number, text in lines:
            tidy = clean(text)
            fence = ("```" in tidy or "~~~" in tidy) and tidy[0] in "`~ " and _FENCE.match(tidy)
            if tidy and not fence and not tidy.isspace():
                yield Line(number, tidy)

    def _unnumbered(self, text: str) -> str:
        if not self._numbered:
            return text
        found = _NUMBERED.match(text)
        return text[found.end() :] if found else text


def _basic(text: str) -> str:
    """Return a line in plain characters: no colour, no bold, full-width digits made narrow."""
    text = text.rstrip()
    if text.isascii() and text.isprintable() and "&" not in text and "<" not in text:  # nearly all
        return text.replace("**", "") if "**" in text else text
    if "&" in text or "</" in text or "<br" in text:
        text = html.unescape(_TAG.sub("", text))
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text.translate(_LOOKALIKES))
    text = _CONTROL.sub("", _ESCAPE.sub("", text))
    return text.replace("**", "").rstrip()


def _are_numbered(lines: Sequence[Line]) -> bool:
    """Return whether a number that grows by one with each line stands before the lines, the first one included."""
    filled = [line for line in lines if line.text and not line.text.lstrip().startswith("```")]
    found = [(line, _NUMBERED.match(line.text)) for line in filled]
    enough = 4
    if len(found) < enough or found[0][1] is None:
        return False
    shifts = Counter(int(match[1]) - line.number for line, match in found if match)
    return shifts.most_common(1)[0][1] >= _MOST * len(filled)


def _constant_words(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the word that begins nearly every line (`node-a: `), or the few words of several hosts; else nothing."""
    filled = [text.lstrip() for text in texts if text and not text.isspace()]
    words = Counter(found[0] for text in filled if (found := _WORD.match(text)))
    enough = 4
    often = tuple(word for word, count in words.most_common(_HOSTS) if count >= max(2, _SOME * len(filled)))
    lines = sum(words[word] for word in often)
    own = any(word.startswith(_OWN_WORDS) for word in often)
    return () if own or lines < max(enough, _MANY * len(filled)) else often
