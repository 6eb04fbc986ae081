#!/usr/bin/env python3
"""Draws the diagrams of docs/pictures: each .txt there becomes an .svg of the same name.

scripts/diagrams.py          write them
scripts/diagrams.py --check  exit with 1 if one does not match its text

A text begins with `boxes WIDTH HEIGHT` or `sequence WIDTH`; # begins a comment.
Quoted words are labels, and | in a label begins a new line.

    boxes:     group X Y W H "title"              a frame around boxes
               box NAME X Y W H "label"           the first line of the label is bold
               arrow FROM TO ["label"]            between the nearest edges of two boxes
    sequence:  actor NAME "label"                 a lifeline, from left to right
               FROM -> TO "label"                 a message; FROM and TO may be the same
               note NAME "label"                  an action of NAME without a message
               phase "label"                      a line over all lifelines
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"
INK, QUIET, PAPER, FILL, FRAME = "#1f2933", "#52606d", "#ffffff", "#e8f1fb", "#f5f7fa"
LINE = 17  # distance of two lines of a label


class DiagramError(Exception):
    """A line that cannot be drawn; the message has the file and the line."""


@dataclass
class Box:
    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> tuple[float, float]:
        return self.x + self.width / 2, self.y + self.height / 2


@dataclass
class Canvas:
    width: float
    height: float
    parts: list[str] = field(default_factory=list)

    def rect(self, box: Box, fill: str, stroke: str, dashed: bool = False) -> None:
        dash = ' stroke-dasharray="6 4"' if dashed else ""
        self.parts.append(
            f'<rect x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}" rx="6" '
            f'fill="{fill}" stroke="{stroke}"{dash}/>'
        )

    def text(
        self, x: float, y: float, words: str, anchor: str = "middle", bold: bool = False, quiet: bool = False
    ) -> None:
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{QUIET if quiet else INK}"{weight}>'
            f"{escape(words)}</text>"
        )

    def arrow(self, x1: float, y1: float, x2: float, y2: float) -> None:
        self.parts.append(
            f'<path d="M{x1:g} {y1:g} L{x2:g} {y2:g}" fill="none" stroke="{INK}" marker-end="url(#head)"/>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, dashed: bool = False) -> None:
        dash = ' stroke-dasharray="4 4"' if dashed else ""
        self.parts.append(f'<path d="M{x1:g} {y1:g} L{x2:g} {y2:g}" stroke="{QUIET}"{dash}/>')

    def svg(self, title: str) -> str:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width:g} {self.height:g}" '
            f'width="{self.width:g}" height="{self.height:g}" role="img" '
            'font-family="Helvetica, Arial, sans-serif" font-size="13">\n'
            f"<title>{escape(title)}</title>\n"
            '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" '
            f'markerHeight="8" orient="auto-start-reverse"><path d="M0 0 L10 5 L0 10 z" fill="{INK}"/>'
            "</marker></defs>\n"
            f'<rect width="{self.width:g}" height="{self.height:g}" fill="{PAPER}"/>\n'
        )
        return head + "\n".join(self.parts) + "\n</svg>\n"


def edge_points(a: Box, b: Box) -> tuple[float, float, float, float]:
    """The ends of an arrow from a to b: across the gap between them, in the middle of their common range."""

    def shared(low_a: float, high_a: float, low_b: float, high_b: float) -> float | None:
        low, high = max(low_a, low_b), min(high_a, high_b)
        return (low + high) / 2 if high > low else None

    y = shared(a.y, a.y + a.height, b.y, b.y + b.height)
    if y is not None:
        return (a.x + a.width, y, b.x, y) if b.x > a.x else (a.x, y, b.x + b.width, y)
    x = shared(a.x, a.x + a.width, b.x, b.x + b.width)
    ax, bx = (x, x) if x is not None else (a.middle[0], b.middle[0])
    return (ax, a.y + a.height, bx, b.y) if b.y > a.y else (ax, a.y, bx, b.y + b.height)


def lines_of(label: str) -> list[str]:
    return label.split("|")


def draw_boxes(rows: list[tuple[int, list[str]]], canvas: Canvas) -> None:
    boxes: dict[str, Box] = {}
    for _, words in rows:
        match words:
            case ["group", x, y, width, height, title]:
                box = Box(float(x), float(y), float(width), float(height))
                canvas.rect(box, FRAME, QUIET, dashed=True)
                canvas.text(box.x + 12, box.y + 20, title, anchor="start", bold=True, quiet=True)
            case ["box", name, x, y, width, height, label]:
                box = boxes[name] = Box(float(x), float(y), float(width), float(height))
                canvas.rect(box, FILL, INK)
                lines = lines_of(label)
                top = box.middle[1] - LINE * (len(lines) - 1) / 2 + 4
                for i, line in enumerate(lines):
                    canvas.text(box.middle[0], top + LINE * i, line, bold=i == 0)
            case ["arrow", start, end, *label]:
                x1, y1, x2, y2 = edge_points(boxes[start], boxes[end])
                canvas.arrow(x1, y1, x2, y2)
                for i, line in enumerate(lines_of(label[0]) if label else []):
                    if x1 == x2:
                        canvas.text(x1 + 8, (y1 + y2) / 2 + 4 + LINE * i, line, anchor="start", quiet=True)
                    else:
                        canvas.text((x1 + x2) / 2, (y1 + y2) / 2 - 6 - LINE * i, line, quiet=True)
            case _:
                raise ValueError(words)


def draw_sequence(rows: list[tuple[int, list[str]]], canvas: Canvas) -> None:
    actors = [(words[1], words[2]) for _, words in rows if words[0] == "actor"]
    gap = canvas.width / len(actors)
    at = {name: gap * (i + 0.5) for i, (name, _) in enumerate(actors)}
    y = 74.0
    body = Canvas(canvas.width, 0)
    for _, words in rows:
        match words:
            case ["actor", _, _]:
                continue
            case [start, "->", end, label]:
                x1, x2 = at[start], at[end]
                lines = lines_of(label)
                for line in lines:
                    body.text((x1 + x2) / 2, y, line)
                    y += LINE
                body.arrow(x1, y - 10, x2, y - 10)
                y += 16
            case ["note", name, label]:
                lines = lines_of(label)
                width = min(gap - 10, 250.0)
                body.rect(Box(at[name] - width / 2, y - 14, width, LINE * len(lines) + 10), FILL, QUIET)
                for line in lines:
                    body.text(at[name], y + 4, line)
                    y += LINE
                y += 22
            case ["phase", label]:
                body.line(20, y - 6, canvas.width - 20, y - 6)
                body.rect(Box(22, y - 2, 8 * len(label), LINE), PAPER, PAPER)
                body.text(24, y + 10, label, anchor="start", bold=True, quiet=True)
                y += 34
            case _:
                raise ValueError(words)
    canvas.height = y + 6
    for name, label in actors:
        canvas.line(at[name], 46, at[name], canvas.height - 10, dashed=True)
        canvas.rect(Box(at[name] - 80, 14, 160, 32), FRAME, INK)
        canvas.text(at[name], 35, label, bold=True)
    canvas.parts += body.parts


def drawn(text: str, name: str) -> str:
    """The SVG of a text; name is for its title and for messages."""
    rows = [(i, words) for i, line in enumerate(text.splitlines(), 1) if (words := shlex.split(line, True))]
    if not rows:
        raise DiagramError(f"{name}: is empty")
    (_, first), *rest = rows
    match first:
        case ["boxes", width, height]:
            canvas, draw = Canvas(float(width), float(height)), draw_boxes
        case ["sequence", width]:
            canvas, draw = Canvas(float(width), 0), draw_sequence
        case _:
            raise DiagramError(f"{name}:1: begins with neither 'boxes WIDTH HEIGHT' nor 'sequence WIDTH'")
    try:
        draw(rest, canvas)
    except (ValueError, KeyError) as error:
        raise DiagramError(f"{name}: cannot be drawn: {error}") from error
    return canvas.svg(name)


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    outdated = []
    for source in sorted(FOLDER.glob("*.txt")):
        picture, target = drawn(source.read_text(encoding="utf-8"), source.stem), source.with_suffix(".svg")
        if not arguments:
            target.write_text(picture, encoding="utf-8")
        elif not target.exists() or target.read_text(encoding="utf-8") != picture:
            outdated.append(target.name)
    if outdated:
        print(f"out of date: {', '.join(outdated)}: run scripts/diagrams.py", file=sys.stderr)
    return 1 if outdated else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
