"""Each part's state at each step, one letter: what the style sheet draws."""

from __future__ import annotations

from ..cards import Card, Pill, Sketch

GHOST, ACTIVE, NORMAL, DONE, STALE, ERROR, WRONG = "g", "a", "n", "d", "s", "e", "w"


def card_states(card: Card, sketch: Sketch, steps: int) -> str:
    """`g0 n3 a5`: a letter and the step from which it holds."""
    marked = _marked(card.id, sketch)
    letters = []
    for step in range(steps):
        if step < card.born:
            letters.append(GHOST)
        elif step in marked:
            letters.append(marked[step])
        elif card.stale is not None and step >= card.stale:
            letters.append(STALE)
        else:
            letters.append(ACTIVE if card.id in sketch.on[step] else NORMAL)
    return runs(letters)


def pill_states(pill: Pill, sketch: Sketch, steps: int) -> str:
    """Like `card_states`; a Function that has run is done, and hollow, until it runs again."""
    marked = _marked(pill.id, sketch)
    first_run = min((step for step, _ in pill.runs), default=steps)
    letters = []
    for step in range(steps):
        if step < pill.born:
            letters.append(GHOST)
        elif step in marked:
            letters.append(marked[step])
        elif pill.id in sketch.on[step]:
            letters.append(ACTIVE)
        else:
            letters.append(DONE if step > first_run else NORMAL)
    return runs(letters)


def _marked(name: str, sketch: Sketch) -> dict[int, str]:
    """The steps at which a Diagnosis shows on this part."""
    letter = {"error": ERROR, "wrong": WRONG}
    return {
        step: letter[mark.severity]
        for mark in sketch.marks
        if mark.target == name and mark.severity in letter
        for step in range(mark.since, len(sketch.on))
    }


def runs(letters: list[str]) -> str:
    """Run lengths.

    >>> runs(["g", "g", "n", "a"])
    'g0 n2 a3'
    """
    return " ".join(
        f"{letter}{step}" for step, letter in enumerate(letters) if step == 0 or letters[step - 1] != letter
    )
