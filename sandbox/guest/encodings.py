"""In which encoding a file is written: by its byte order mark, as UTF-8, or guessed from its bytes.

A guess is always called one. Candidates are the encodings that source trees are really found in; the one whose
decoded characters are the most usual in its language wins.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass

MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig", ""),
    (codecs.BOM_UTF32_LE, "utf-32", "UTF-32, little endian, by its byte order mark"),
    (codecs.BOM_UTF32_BE, "utf-32", "UTF-32, big endian, by its byte order mark"),
    (codecs.BOM_UTF16_LE, "utf-16", "UTF-16, little endian, by its byte order mark"),
    (codecs.BOM_UTF16_BE, "utf-16", "UTF-16, big endian, by its byte order mark"),
)
CONTROL = bytes(set(range(28)) - set(b"\a\b\t\n\v\f\r\x1b")) + b"\x7f"
MAX_CONTROL_SHARE = 0.02  # of a file that is not UTF-8; valid UTF-8 may hold more
MAX_CONTROL_SHARE_UTF8 = 0.3
MIN_SHARE = 0.55
"""A multi-byte guess needs this share of usual characters among those that are not ASCII."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """A Python codec name, whether it is only a guess, and how to call it (empty for the codec's name)."""

    codec: str
    guessed: bool = False
    title: str = ""

    @property
    def wide(self) -> bool:
        """Whether a line feed is more than the one byte 0x0A."""
        return self.codec.startswith(("utf-16", "utf-32"))


UTF8 = Encoding("utf-8")


def detect(sample: bytes, whole: bool) -> Encoding | None:
    """The encoding of a file that begins with `sample` (all of it when `whole`); None when it is not text."""
    for mark, codec, title in MARKS:
        if sample.startswith(mark):
            return Encoding(codec, title=title)
    if b"\0" in sample:
        return _unmarked_wide(sample)
    if _decodes(sample, "utf-8", whole):
        if _japanese_escapes(sample):
            return Encoding("iso2022_jp", guessed=True)
        return UTF8 if _control_share(sample) <= MAX_CONTROL_SHARE_UTF8 else None
    if _control_share(sample) > MAX_CONTROL_SHARE:
        return None
    return _legacy(sample, whole)


def _decodes(sample: bytes, codec: str, whole: bool) -> bool:
    try:
        codecs.getincrementaldecoder(codec)().decode(sample, final=whole)
    except UnicodeDecodeError:
        return False
    return True


def _control_share(sample: bytes) -> float:
    return 1 - len(sample.translate(None, CONTROL)) / len(sample) if sample else 0.0


def _japanese_escapes(sample: bytes) -> bool:
    return re.search(rb"\x1b\$[@B][!-~]{2,}?\x1b\([BJ]", sample) is not None and _decodes(sample, "iso2022_jp", False)


def _unmarked_wide(sample: bytes) -> Encoding | None:
    """UTF-16 or UTF-32 without a mark: the zero bytes of its ASCII characters all stand in the same places."""
    zeros = [sample[place::4].count(0) for place in range(4)]
    quarter = max(len(sample) // 4, 1)
    patterns = (
        ("utf-32-le", (False, None, True, True)),
        ("utf-32-be", (True, True, None, False)),
        ("utf-16-le", (False, True, False, True)),
        ("utf-16-be", (True, False, True, False)),
    )
    for codec, pattern in patterns:
        width = 4 if "32" in codec else 2
        fits = all(
            zero_here is None or (count > 0.5 * quarter if zero_here else count <= 0.02 * quarter)
            for count, zero_here in zip(zeros, pattern, strict=True)
        )
        if fits and len(sample) >= width and _readable(sample[: len(sample) // width * width], codec):
            return Encoding(codec, guessed=True)
    return None


def _readable(sample: bytes, codec: str) -> bool:
    try:
        text = codecs.getincrementaldecoder(codec)().decode(sample, final=False)
    except UnicodeDecodeError:
        return False
    return all(char.isprintable() or char.isspace() or char in "\x1b\ufeff" for char in text)


# Each takes the two bytes of a character and tells whether it is among the usual ones of its language.
Usual = Callable[[int, int], bool]

MULTIBYTE: tuple[tuple[str, Usual], ...] = (
    ("euc_jp", lambda lead, _: lead in (0xA4, 0xA5) or 0xB0 <= lead <= 0xCF or lead == 0xA1),
    ("shift_jis", lambda lead, _: lead in (0x82, 0x83) or 0x88 <= lead <= 0x97 or lead == 0x81),
    ("euc_kr", lambda lead, _: 0xB0 <= lead <= 0xC8),
    ("gb18030", lambda lead, trail: (0xB0 <= lead <= 0xD7 or lead in (0xA1, 0xA3)) and trail >= 0xA1),
    ("big5", lambda lead, _: 0xA4 <= lead <= 0xC6 or lead == 0xA1),
)
KANA = {"euc_jp": (0xA4, 0xA5), "shift_jis": (0x82, 0x83)}


def _legacy(sample: bytes, whole: bool) -> Encoding:
    if _slightly_broken_utf8(sample):
        return UTF8
    scores = [
        (score, codec) for codec, usual in MULTIBYTE if (score := _score(sample, codec, usual, whole)) > MIN_SHARE
    ]
    if scores:
        return Encoding(max(scores)[1], guessed=True)
    return Encoding(_single_byte(sample), guessed=True)


def _slightly_broken_utf8(sample: bytes) -> bool:
    """UTF-8 with a few bad bytes: most of what is not ASCII still forms valid sequences."""
    text = sample.decode("utf-8", "replace")
    bad = text.count("\ufffd")
    good = sum(1 for char in text if char > "\x7f" and char != "\ufffd")
    return good >= 10 * bad


def _score(sample: bytes, codec: str, usual: Usual, whole: bool) -> float:
    """The share of usual characters; 0 when the bytes are not valid in this encoding."""
    if not _decodes(sample, codec, whole):
        return 0.0
    pairs = usual_pairs = kana = place = 0
    while place < len(sample) - 1:
        lead, trail = sample[place], sample[place + 1]
        if lead < 0x80 or (codec == "shift_jis" and 0xA1 <= lead <= 0xDF):
            place += 1
            pairs += lead >= 0x80  # half-width katakana: valid, and not usual
            continue
        pairs += 1
        usual_pairs += usual(lead, trail)
        kana += lead in KANA.get(codec, ())
        place += 2
    if not pairs:
        return 0.0
    return usual_pairs / pairs + _hint(codec, usual_pairs / pairs, kana / pairs, pairs)


def _hint(codec: str, share: float, kana_share: float, pairs: int) -> float:
    """What tells languages apart whose usual bytes overlap."""
    if codec in KANA:  # kanji are Chinese too, kana are Japanese only
        return 0.2 if kana_share > 0.25 else -0.3 if kana_share < 0.1 else 0.0
    # Hangul fill the first half of what Chinese uses: a longer text that never leaves it is Korean.
    return 0.05 if codec == "euc_kr" and share > 0.95 and pairs >= 4 else 0.0


def _single_byte(sample: bytes) -> str:
    high = re.findall(rb"[\x80-\xff]+", sample)
    letters = sum(map(len, high))
    if letters >= 2 * len(high) and letters > 8:  # words of high bytes: Cyrillic, not an accent here and there
        lower_in_cp1251 = sum(byte >= 0xE0 for run in high for byte in run)
        lower_in_koi8 = sum(0xC0 <= byte < 0xE0 for run in high for byte in run)
        return "cp1251" if lower_in_cp1251 >= lower_in_koi8 else "koi8_r"
    return "cp1252" if _decodes(sample, "cp1252", True) else "latin-1"
