"""The text of each page of a PDF that Chromium printed: enough of the format for that, and no more."""

import re
import zlib
from collections.abc import Iterator

_OBJECT = re.compile(rb"(\d+) 0 obj\n(.*?)\nendobj", re.DOTALL)
_STREAM = re.compile(rb"stream\r?\n(.*)\r?\nendstream", re.DOTALL)
_SHOWN = re.compile(rb"/(F\d+) [\d.]+ Tf|<([0-9A-Fa-f]+)>(?=[^\[\]]*?(?:Tj|\]|<|-?\d))")


_LIGATURES = str.maketrans({"\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl"})
"""What some fonts draw as one letter."""


def pages(pdf: bytes) -> list[str]:
    """What each page says, in the order in which it is drawn."""
    objects = {int(found[1]): found[2] for found in _OBJECT.finditer(pdf)}
    return [_text(objects, page) for page in objects.values() if re.search(rb"/Type /Page\b(?!s)", page)]


def _text(objects: dict[int, bytes], page: bytes) -> str:
    fonts = {name.decode(): _letters(objects, int(number)) for name, number in _fonts(objects, page)}
    said, letters = [], {}
    for number in re.findall(rb"/Contents (\d+) 0 R", page):
        for font, shown in _SHOWN.findall(_stream(objects[int(number)])):
            if font:
                letters = fonts.get(font.decode(), {})
                continue
            codes = (int(shown[i : i + 4], 16) for i in range(0, len(shown), 4))
            said.append("".join(letters.get(code, "") for code in codes).translate(_LIGATURES))
    return "".join(said)


def _fonts(objects: dict[int, bytes], page: bytes) -> Iterator[tuple[bytes, bytes]]:
    for block in re.findall(rb"/Font <<(.*?)>>", page, re.DOTALL):
        yield from re.findall(rb"/(F\d+) (\d+) 0 R", block)


def _letters(objects: dict[int, bytes], number: int) -> dict[int, str]:
    """From a font's glyphs to text, as its /ToUnicode map says."""
    found = re.search(rb"/ToUnicode (\d+) 0 R", objects[number])
    if found is None:
        return {}
    content, letters = _stream(objects[int(found[1])]), {}
    for block in re.findall(rb"beginbfchar\n(.*?)endbfchar", content, re.DOTALL):
        for code, text in re.findall(rb"<([0-9A-Fa-f]+)> <([0-9A-Fa-f]+)>", block):
            letters[int(code, 16)] = bytes.fromhex(text.decode()).decode("utf-16-be")
    for block in re.findall(rb"beginbfrange\n(.*?)endbfrange", content, re.DOTALL):
        for first, last, text in re.findall(rb"<([0-9A-Fa-f]+)> <([0-9A-Fa-f]+)> <([0-9A-Fa-f]+)>", block):
            start = int(text, 16)
            letters |= {code: chr(start + i) for i, code in enumerate(range(int(first, 16), int(last, 16) + 1))}
    return letters


def _stream(content: bytes) -> bytes:
    found = _STREAM.search(content)
    assert found is not None
    return zlib.decompress(found[1]) if b"/FlateDecode" in content else found[1]
