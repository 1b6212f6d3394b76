"""A model's card (README.md): what of it still holds after the model was changed."""

import re

_FRONT_MATTER = re.compile(r"\A---\n(.*?\n)---\n", re.DOTALL)


def derived_card(card: str | None, how: str) -> str | None:
    """Return the card of a model made from another by `how`: licence and language hold, measurements do not."""
    if card is None:
        return None
    front = _FRONT_MATTER.match(card)
    head = f"---\n{front[1]}---\n" if front else ""
    title = re.search(r"^# (.+)$", card, re.MULTILINE)
    name = title[1].strip() if title else "a model"
    licence = license_of(card)
    lines = [
        f"{head}# From {name}\n",
        f"Made from {name} by {how}. Its measurements are not those of {name}.",
    ]
    if licence:
        lines.append(f"The weights keep its licence, {licence}.")
    return "\n".join(lines) + "\n"


def license_of(card: str | None) -> str | None:
    """Return the licence that the head of a card names."""
    front = _FRONT_MATTER.match(card or "")
    found = re.search(r"^license:\s*['\"]?([^'\"\n]+)", front[1], re.MULTILINE) if front else None
    return found[1].strip() if found else None
