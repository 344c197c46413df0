"""Each part's state at each step, one letter: what the style sheet draws."""

from __future__ import annotations

from seegrad.model.recording import Severity
from seegrad.picture.sketch import Bundle, Card, Chip, Pill, Sketch

GHOST, ACTIVE, NORMAL, DONE, STALE, ERROR, WRONG = "g", "a", "n", "d", "s", "e", "w"

LETTERS: dict[Severity, str] = {"error": ERROR, "wrong": WRONG}


class States:
    """The states of every part of one Sketch, found from the few steps at which each may change."""

    def __init__(self, sketch: Sketch, steps: int, about: dict[str, list[int]]) -> None:
        self.steps, self.about = steps, about
        self.marks = {mark.target: mark for mark in sketch.marks if mark.severity in LETTERS}

    def of_card(self, card: Card) -> str:
        """`g0 n3 a5`: a letter and the step from which it holds."""
        stale = self.steps if card.stale is None else card.stale
        return self._runs(card.id, card.born, stale, STALE, active_late=False)

    def of_pill(self, pill: Pill) -> str:
        """Like `of_card`; a Function whose saved tensors are freed is done, and hollow."""
        freed = self.steps if pill.freed is None else pill.freed
        return self._runs(pill.id, pill.born, freed, DONE, active_late=True)

    def of_bundle(self, bundle: Bundle) -> str:
        """A box is active while something inside it is, and done when all of it is."""
        freed = self.steps if bundle.freed is None else bundle.freed
        return self._runs(bundle.id, bundle.born, freed, DONE, active_late=True)

    def of_chip(self, chip: Chip) -> str:
        """A chip is there from the first line that it names on."""
        return self._runs(chip.id, chip.born, self.steps, NORMAL, active_late=True)

    def _runs(self, name: str, born: int, late: int, letter: str, *, active_late: bool) -> str:
        """Letters before and after the step `late`; `active_late`: may a part be active after it?"""
        about = set(self.about.get(name, ()))
        mark = self.marks.get(name)
        since = mark.since if mark else self.steps
        changes = {0, born, late, since, *about, *(step + 1 for step in about)}
        found: list[tuple[int, str]] = []
        for step in sorted(step for step in changes if step < self.steps):
            if step < born:
                now = GHOST
            elif mark is not None and step >= since:
                now = LETTERS[mark.severity]
            elif step in about and (active_late or step < late):
                now = ACTIVE
            else:
                now = letter if step >= late else NORMAL
            if not found or found[-1][1] != now:
                found.append((step, now))
        return " ".join(f"{letter}{step}" for step, letter in found)
