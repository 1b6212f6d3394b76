"""Rows of plain values -> an HTML table, for the `_repr_html_` of results that notebooks show."""

from collections.abc import Iterable, Sequence
from html import escape


def html_table(rows: Iterable[Sequence[object]], *, header: Sequence[str] = (), caption: str = "") -> str:
    """Return a table; numbers are aligned right, floats are shown with three decimals, text is escaped."""
    parts = ["<table>"]
    if caption:
        parts.append(f'<caption style="text-align:left">{escape(caption)}</caption>')
    if header:
        parts.append(f"<thead><tr>{''.join(f'<th>{escape(name)}</th>' for name in header)}</tr></thead>")
    parts.append("<tbody>")
    parts += [f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows]
    return "\n".join([*parts, "</tbody>", "</table>"])


def _cell(value: object) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    shown = f"{value:.3f}" if isinstance(value, float) else f"{value:,}" if is_number else escape(str(value))
    return f'<td style="text-align:{"right" if is_number else "left"}">{shown}</td>'
