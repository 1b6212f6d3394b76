"""Draw the figures of docs/how-elmo-works.md: python docs/hooks/drawings.py writes docs/pictures/*.svg.

Colors are CSS variables. The <style> of an SVG file follows the system's light or dark theme; pages.py inlines the
figures without it, and docs/assets/site.css sets the variables.
"""

from html import escape
from pathlib import Path

from elmo.text.characters import Utf8Alphabet

PICTURES = Path(__file__).parents[1] / "pictures"
COLORS = {
    "ink": ("#1d1c1a", "#ebe8e1"), "soft": ("#5c5850", "#a8a59d"), "line": ("#b9b3a6", "#565b66"),
    "paper": ("#fffefb", "#1c1f25"), "a": ("#0b6b69", "#66cfc8"), "a-pale": ("#d5ebe9", "#1d4341"),
    "b": ("#a8420f", "#f3a476"), "b-pale": ("#f8e0d2", "#4d2f1e"), "c": ("#4b3f9b", "#b3a9f5"),
    "c-pale": ("#e3e0f5", "#332e57"),
}  # fmt: skip
LIGHT, DARK = (";".join(f"--{name}:{pair[theme]}" for name, pair in COLORS.items()) for theme in (0, 1))
STYLE = f"<style>\nsvg{{{LIGHT}}}\n@media (prefers-color-scheme:dark){{svg{{{DARK}}}}}\n</style>"


class Drawing:
    """A picture that is built shape by shape, in a coordinate system of about 760 units per line."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self._shapes: list[str] = []

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        color: str = "",
        *,
        strong: bool = False,
        radius: int = 4,
    ) -> None:
        """Draw a rectangle: pale with a border of its color, a, b or c, or without one in the color of paper."""
        fill = f"var(--{color}-pale)" if color else "var(--paper)"
        stroke = f"var(--{color})" if color else "var(--line)"
        self._shapes.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius}" fill="{fill}" '
            f'stroke="{stroke}" stroke-width="{2.5 if strong else 1.2}"/>'
        )

    def cell(self, x: float, y: float, size: float, color: str, share: float) -> None:
        """Draw a cell of a matrix; `share` is how strong its color is."""
        self._shapes.append(
            f'<rect x="{x:g}" y="{y:g}" width="{size:g}" height="{size:g}" fill="var(--{color})" '
            f'fill-opacity="{share:.2f}"/>'
        )

    def text(
        self, x: float, y: float, text: str, *, color: str = "ink", size: int = 15, anchor: str = "middle",
        bold: bool = False, mono: bool = False, italic: bool = False,
    ) -> None:  # fmt: skip
        """Write a line of text whose baseline is at y."""
        family = "ui-monospace,Menlo,Consolas,monospace" if mono else "system-ui,sans-serif"
        look = (' font-weight="600"' if bold else "") + (' font-style="italic"' if italic else "")
        self._shapes.append(
            f'<text x="{x:g}" y="{y:g}" font-family="{family}" font-size="{size}" text-anchor="{anchor}" '
            f'fill="var(--{color})"{look}>{escape(text)}</text>'
        )

    def arrow(self, x1: float, y1: float, x2: float, y2: float, color: str = "soft", width: float = 1.6) -> None:
        """Draw a straight arrow that ends at the second point."""
        length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
        dx, dy = (x2 - x1) / length, (y2 - y1) / length
        back_x, back_y = x2 - 7 * dx, y2 - 7 * dy
        self._shapes.append(
            f'<line x1="{x1:g}" y1="{y1:g}" x2="{back_x:.4g}" y2="{back_y:.4g}" stroke="var(--{color})" '
            f'stroke-width="{width}"/>'
            f'<polygon points="{x2:.4g},{y2:.4g} {back_x - 4 * dy:.4g},{back_y + 4 * dx:.4g} '
            f'{back_x + 4 * dy:.4g},{back_y - 4 * dx:.4g}" fill="var(--{color})"/>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, color: str = "soft") -> None:
        """Draw a thin line."""
        self._shapes.append(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="var(--{color})"/>')

    def to_svg(self) -> str:
        """Return the file's content."""
        shapes = "\n".join(self._shapes)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" role="img" '
            f'aria-label="{escape(self.title)}">\n{STYLE}\n{shapes}\n</svg>\n'
        )


def draw_characters() -> Drawing:
    """Draw how the letters of "bank" become the vector x."""
    drawing = Drawing(760, 560, "The character CNN: ids of the letters, their embeddings, filters, maxima, highways")
    ids = Utf8Alphabet().encode(["bank"])[0]
    letters = ["⟨w⟩", "b", "a", "n", "k", "⟨/w⟩", "·", "·", "…", "·"]
    left, step = 40, 48
    drawing.text(left, 24, "the word as C = 50 character ids", anchor="start", color="soft", size=14)
    for place, letter in enumerate(letters):
        x = left + place * step
        drawing.text(x + 21, 52, letter, mono=True, bold=True, size=16)
        drawing.box(x, 62, 42, 28, "" if place > 5 else "c")
        drawing.text(x + 21, 81, "…" if letter == "…" else str(ids[min(place, 7)]), mono=True, size=13)
    drawing.text(540, 81, "C", italic=True, anchor="start")
    drawing.text(575, 81, "ids 0 to 261", anchor="start", color="soft", size=14)
    drawing.arrow(280, 96, 280, 122)
    drawing.text(292, 114, "look up", anchor="start", color="soft", size=14)
    for place in range(len(letters)):
        for row in range(6):
            share = 0.15 + 0.8 * ((place * 37 + row * 53 + (place * row) % 7 * 11) % 97) / 97
            drawing.cell(left + place * step + 2, 130 + row * 14, 13, "c", share if place <= 5 else share * 0.25)
            drawing.cell(left + place * step + 15, 130 + row * 14, 13, "c", share * 0.6 if place <= 5 else share * 0.15)
            drawing.cell(left + place * step + 28, 130 + row * 14, 13, "c", share * 0.8 if place <= 5 else share * 0.2)
    drawing.text(540, 178, "C × 16", italic=True, anchor="start")
    drawing.text(605, 178, "one vector per letter", anchor="start", color="soft", size=14)
    filters = [(0, 1, "width 1"), (1, 2, "width 2"), (1, 3, "width 3"), (0, 7, "width 7")]
    for number, (start, width, name) in enumerate(filters):
        y = 232 + number * 24
        color = "a" if number % 2 else "b"
        drawing.box(left + start * step, y, width * step - 6, 16, color)
        drawing.arrow(left + (start + width) * step - 2, y + 8, left + (start + width) * step + 34, y + 8, color)
        drawing.text(left + (start + width) * step + 42, y + 13, name, anchor="start", color=color, size=13)
    drawing.text(540, 262, "filters slide over the letters;", anchor="start", color="soft", size=14)
    drawing.text(540, 282, "each keeps its largest value", anchor="start", color="soft", size=14)
    drawing.arrow(280, 332, 280, 356)
    drawing.text(292, 350, "maximum over the positions", anchor="start", color="soft", size=14)
    parts = [(0, 40, "b"), (40, 40, "a"), (80, 70, "b"), (150, 90, "a"), (240, 110, "b"), (350, 130, "a")]
    for start, width, color in parts:
        drawing.box(left + start, 362, width, 26, color, radius=0)
    drawing.text(540, 380, "2048", italic=True, anchor="start")
    drawing.text(605, 380, "one number per filter", anchor="start", color="soft", size=14)
    drawing.arrow(280, 394, 280, 416)
    drawing.box(left, 420, 480, 34)
    drawing.text(280, 442, "2 highways: g · relu(W v) + (1 − g) · v", mono=True, size=14)
    drawing.text(540, 442, "2048", italic=True, anchor="start")
    drawing.arrow(280, 458, 280, 480)
    drawing.text(292, 474, "projection", anchor="start", color="soft", size=14)
    drawing.box(130, 484, 300, 30, "c", strong=True)
    drawing.text(280, 504, "x, the word without context", size=14, bold=True)
    drawing.text(540, 504, "D = 512", italic=True, anchor="start")
    sizes = "Sizes of the paper's model. ⟨w⟩ 259 and ⟨/w⟩ 260 mark the ends of the word; 261 is padding."
    drawing.text(left, 548, sizes, anchor="start", color="soft", size=13)
    return drawing


def draw_language_models() -> Drawing:
    """Draw the two language models over one sentence, and what each has seen at one word."""
    drawing = Drawing(760, 520, "Two language models, one from left to right and one from right to left")
    words = ["the", "bank", "of", "the", "river"]
    for side, (color, title) in enumerate((("a", "left to right"), ("b", "right to left"))):
        left, step = 28 + side * 372, 68
        drawing.text(left + 166, 24, title, color=color, bold=True, size=16)
        targets = [*words[1:], "⟨/S⟩"] if side == 0 else ["⟨S⟩", *words[:-1]]
        for place, word in enumerate(words):
            x = left + place * step
            is_word = word == "bank"
            drawing.text(x + 28, 54, targets[place], italic=True, size=14, color=color)
            drawing.arrow(x + 28, 92, x + 28, 62, color)
            for layer in (2, 1):
                y = 100 + (2 - layer) * 112
                drawing.box(x, y, 56, 56, color, strong=is_word)
                drawing.text(x + 28, y + 33, f"h{'₁₂'[layer - 1]}", italic=True, size=15, bold=is_word)
                drawing.arrow(x + 28, y + 108 if layer == 2 else y + 102, x + 28, y + 60)
                if place < len(words) - 1:
                    if side == 0:
                        drawing.arrow(x + 57, y + 28, x + step - 1, y + 28, color)
                    else:
                        drawing.arrow(x + step - 1, y + 28, x + 57, y + 28, color)
            drawing.box(x, 318, 56, 34, "c", strong=is_word)
            drawing.text(x + 28, 340, "x", italic=True, size=15, bold=is_word)
            drawing.text(x + 28, 376, word, bold=is_word, size=15)
        first, last = (0, 1) if side == 0 else (1, 4)
        y = 394
        drawing.line(left + first * step, y, left + last * step + 56, y, color)
        drawing.line(left + first * step, y - 6, left + first * step, y, color)
        drawing.line(left + last * step + 56, y - 6, left + last * step + 56, y, color)
        context = "has seen: the bank" if side == 0 else "has seen: river the of bank"
        drawing.text(left + (first + last) * step / 2 + 28, 414, context, color=color, size=14)
    drawing.line(380, 16, 380, 424, "line")
    drawing.text(
        380,
        452,
        "Each predicts the next word in its own direction (top row, with a shared softmax).",
        color="soft",
        size=14,
    )
    drawing.text(380, 474, "Both have the same input x. Their states are independent.", color="soft", size=14)
    drawing.text(380, 502, "For “bank”: h = [left to right; right to left], in layer 1 and in layer 2.", size=14)
    return drawing


def draw_mix() -> Drawing:
    """Draw how the layers of one word become the vector that a task sees."""
    drawing = Drawing(
        760, 440, "The layer mix: three layers of 2D dimensions, weighted by s, summed and scaled by gamma"
    )
    layers = [
        ("layer 2", "h₂", "s₂", "a", "b"),
        ("layer 1", "h₁", "s₁", "a", "b"),
        ("layer 0", "x twice", "s₀", "c", "c"),
    ]
    for number, (name, symbol, weight, ahead, back) in enumerate(layers):
        y = 40 + number * 64
        drawing.text(24, y + 25, name, anchor="start", bold=True)
        for half, color in enumerate((ahead, back)):
            drawing.box(110 + half * 122, y, 122, 38, color, radius=0)
            if number < 2:
                drawing.text(171 + half * 122, y + 24, ("→ " if half == 0 else "← ") + symbol, italic=True, color=color)
            else:
                drawing.text(171 + half * 122, y + 24, "x", italic=True, color=color)
        drawing.text(382, y + 25, "×", size=18)
        drawing.box(402, y + 2, 46, 34, strong=True, radius=17)
        drawing.text(425, y + 24, weight, italic=True, bold=True)
        drawing.arrow(452, y + 19, 520, 104 + (number - 1) * 14)
    drawing.text(171, 26, "left to right, D", color="a", size=13)
    drawing.text(293, 26, "right to left, D", color="b", size=13)
    drawing.text(425, 26, "softmax(w)", color="soft", size=13, mono=True)
    drawing.box(526, 84, 40, 40, strong=True, radius=20)
    drawing.text(546, 111, "Σ", size=20)
    drawing.arrow(568, 104, 606, 104)
    drawing.box(610, 84, 40, 40, strong=True, radius=20)
    drawing.text(630, 110, "γ", size=20, italic=True, bold=True)
    drawing.arrow(630, 128, 630, 226)
    drawing.box(510, 230, 240, 38, "c", strong=True, radius=0)
    drawing.text(630, 254, "ELMo of the word, 2D", bold=True)
    drawing.text(24, 324, "task", anchor="start", bold=True)
    drawing.box(110, 300, 244, 38, radius=0)
    drawing.text(232, 324, "the task’s own word vector", size=14)
    drawing.text(372, 325, ";", size=18, bold=True)
    drawing.box(390, 300, 244, 38, "c", radius=0)
    drawing.text(512, 324, "dropout(ELMo)", size=14)
    drawing.arrow(630, 270, 560, 297)
    drawing.arrow(372, 342, 372, 366)
    drawing.box(110, 370, 524, 36)
    drawing.text(372, 393, "the network of the task: BiLSTM, CRF, attention, …", size=14)
    learned = "Learned by the task: w, one number per layer, and γ. The language models are frozen."
    drawing.text(24, 432, learned, anchor="start", color="soft", size=13)
    return drawing


DRAWINGS = {"character-cnn": draw_characters, "language-models": draw_language_models, "layer-mix": draw_mix}


if __name__ == "__main__":
    for name, draw in DRAWINGS.items():
        (PICTURES / f"{name}.svg").write_text(draw().to_svg(), encoding="utf-8")
