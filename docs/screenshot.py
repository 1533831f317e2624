"""Draws what codeagent leaves on a terminal, as an SVG without any outside reference: the picture in the README.

    .venv/bin/python docs/screenshot.py            # writes docs/ask.svg; needs what `codeagent ask` needs

The program runs in a real pseudo-terminal of 100 columns, in a copy of a fixture below a home directory of its own;
the picture is made from what stood on the screen.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from html import escape
from itertools import groupby
from pathlib import Path

import pexpect
import pyte

COMMAND = 'codeagent ask "why does findByEmail return null" --model offline'
COLUMNS, LINES = 100, 90
WIDTH, HEIGHT, MARGIN = 8.4, 19, 18
COLOURS = {
    "default": "#d7dae0",
    "black": "#5c6370",
    "red": "#ff7b72",
    "green": "#7ee2a8",
    "brown": "#e9bd63",
    "blue": "#8ab0ff",
    "magenta": "#d2a8ff",
    "cyan": "#7fd4e8",
    "white": "#d7dae0",
    "brightblack": "#8b949e",
}


def screen_of(command: str, home: Path) -> pyte.Screen:
    """Runs `command` by `sh` to its end, in a copy of a fixture below `home`; what stands on the terminal then."""
    repository = home / "src" / "user-service"
    shutil.copytree(Path(__file__).parents[1] / "fixtures" / "user-service", repository)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environ = {**os.environ, "HOME": str(home), "CODEAGENT_HOME": str(home / "state"), "PATH": path, "TERM": "xterm"}
    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    child: pexpect.spawn[bytes] = pexpect.spawn(
        "sh", ["-c", command], cwd=str(repository), env=environ, dimensions=(LINES, COLUMNS), timeout=600
    )
    stream.feed(child.read())
    child.close()
    return screen


def drawn(screen: pyte.Screen, command: str) -> str:
    """The SVG. Dim text is drawn fainter; each run of one style is stretched to its columns."""
    rows = [screen.buffer[number] for number in range(LINES)]
    while rows and not any(row[column].data.strip() for row in rows[-1:] for column in range(COLUMNS)):
        rows.pop()
    prompt = f'<tspan fill="#7ee2a8">$</tspan> <tspan fill="#ffffff">{escape(command)}</tspan>'
    texts = [_text(prompt, 0)]
    for number, row in enumerate(rows, 1):
        cells = [(column, row[column]) for column in range(COLUMNS) if row[column].data]
        for style, run in groupby(cells, lambda cell: (cell[1].fg, cell[1].bold)):
            found = list(run)
            text = "".join(cell.data for _, cell in found)
            if text.strip():
                texts.append(_run(text, found[0][0], found[-1][0] + 1, number, style))
    height = MARGIN * 2 + HEIGHT * (len(rows) + 1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {MARGIN * 2 + WIDTH * COLUMNS:.0f} {height}" '
        'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, Liberation Mono, monospace" font-size="14">'
        f'<rect width="100%" height="100%" rx="10" fill="#14171b"/>{"".join(texts)}</svg>\n'
    )


def _run(text: str, start: int, end: int, row: int, style: tuple[str, bool]) -> str:
    colour, bold = style
    weight = ' font-weight="bold"' if bold else ""
    stripped = text.rstrip()
    end -= len(text) - len(stripped)
    length = f'textLength="{(end - start) * WIDTH:.1f}" lengthAdjust="spacingAndGlyphs"'
    fill = COLOURS.get(colour, COLOURS["default"])
    return _text(f'<tspan fill="{fill}"{weight} {length}>{escape(stripped)}</tspan>', row, start)


def _text(content: str, row: int, column: int = 0) -> str:
    x, y = MARGIN + column * WIDTH, MARGIN + HEIGHT * row + 14
    return f'<text xml:space="preserve" x="{x:.1f}" y="{y}">{content}</text>'


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        picture = drawn(screen_of(COMMAND, Path(home).resolve()), COMMAND)
    Path(__file__).with_name("ask.svg").write_text(picture, encoding="utf-8")
