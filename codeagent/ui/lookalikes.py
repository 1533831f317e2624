"""Letters that pass for ASCII ones: what a person reads is then not what runs."""

from __future__ import annotations

import re
import unicodedata

# Lower and upper case letters of Cyrillic, Greek and Armenian that common fonts draw like a Latin one.
_LATIN = dict(
    zip(
        "асԁеһіјӏорԛѕԝхуᴦɡАВСЕНІЈКМОРЅТХУԌԜαινορτυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧոսհգօⲟ",
        "acdehijlopqswxyrgABCEHIJKMOPSTXYGWaivoptuxABEZHIKMNOPTYXnuhgoo",
        strict=True,
    )
)


def lookalikes(text: str) -> list[str]:
    """One sentence for each word of `text` that could be taken for another, ASCII one."""
    if text.isascii():
        return []
    said = []
    for word in dict.fromkeys(re.findall(r"[^\W_]+", text)):
        latin = [_latin(letter) for letter in word]
        strange = next((at for at, letter in enumerate(word) if not letter.isascii() and latin[at]), None)
        if strange is not None and all(latin):
            letter = word[strange]
            name = unicodedata.name(letter, "unnamed").lower()
            said.append(f"{word} is not {''.join(latin)}: it holds U+{ord(letter):04X} ({name})")
    return said


def _latin(letter: str) -> str:
    """The ASCII letter or digit that `letter` is or looks like; empty when it is like none."""
    if letter.isascii():
        return letter
    plain = _LATIN.get(letter) or unicodedata.normalize("NFKC", letter)
    return plain if plain.isascii() else ""
