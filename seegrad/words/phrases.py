"""A Diagnosis in words: two sentences, what happened and what to do.

The English templates are the message ids of the gettext catalogues in `seegrad/locale`; a language without a
catalogue, or a sentence that it lacks, falls back to English.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePath
from string import Formatter

from seegrad.model.invented import EXTERNAL_WRITE
from seegrad.model.recording import Diagnosis, Place
from seegrad.words.advice import DO
from seegrad.words.languages import _, closed, counted, speaking, together
from seegrad.words.sentences import A_RESULT, A_TENSOR, AND, OF_SHAPE, THROUGH, WHAT, WHY

MAX_CODE = 60

AUGMENTED = re.compile(r"(?<![<>=!])(\*\*|//|[-+*/@%&|^])=(?!=)")
"""The sign of `x += y` and the like."""

PATH = re.compile(r"[^\W\d][\w.]*")
"""A variable or an attribute."""

SHAPES = frozenset({"squeeze_", "unsqueeze_", "t_", "transpose_", "swapaxes_", "swapdims_"})
"""Ops in place that change nothing but the shape."""

NO_TWIN = {
    "zero_": "torch.zeros_like({name})",
    "fill_": "torch.full_like({name}, …)",
    "copy_": "….clone()",
    "normal_": "torch.randn_like({name})",
    "uniform_": "torch.rand_like({name})",
    "fill_diagonal_": "{name}.diagonal_scatter(…)",
    **dict.fromkeys(
        ("cauchy_", "exponential_", "geometric_", "log_normal_", "random_"), "torch.empty_like({name}).{op}(…)"
    ),
    **dict.fromkeys(("apply_", "map_", "map2_", "set_"), "torch.where(…)"),
    **dict.fromkeys(
        ("resize_as_sparse_", "share_memory_", "sparse_resize_", "sparse_resize_and_clear_"), "{name}.clone()"
    ),
}
"""Methods that write in place and have no method of that name without the underscore → what to write instead."""

ARTICLES = ("a ", "the ")
"""How a sentence may begin that begins with a tensor without a name."""

GAP = re.compile(r"\{(\w+)\}")


def sentence(diagnosis: Diagnosis, lang: str | None = None) -> str:
    """Two sentences: what happened (culprit, victim, tensor, versions), what to do; in `language(lang)`.

    >>> from seegrad.model import Diagnosis, Place
    >>> print(sentence(Diagnosis("leaf_modified", "error", True, Place("a.py", 3, "w.normal_()"), None, None, "w",
    ...     arguments=(("label", "`w`"), ("op", "normal_"), ("trained", 0)))))
    Line 3 (`w.normal_()`) writes in place to `w`, a leaf that requires grad: autograd would lose the value that the \
gradient belongs to, so torch refuses before anything is written. To set or update values outside the graph, write \
under `with torch.no_grad():`; to compute with a changed value, make a new tensor, for example `w_new = w + …`.
    """
    with speaking(lang):
        words = _Words(diagnosis)
        both = words.say(WHAT, *what_ids(diagnosis)), words.say(DO, *do_ids(diagnosis))
        return closed(together(*(_capital(each) if each.startswith(ARTICLES) else each for each in both)))


def what_ids(diagnosis: Diagnosis) -> tuple[str, ...]:
    """Ids of the first sentence, the most special one first; the first that exists is used."""
    kind, given = diagnosis.kind, dict(diagnosis.arguments)
    cause = given.get("cause")
    if kind == "graph_cut":
        stem = f"{kind}.{'error' if diagnosis.raised else 'note'}"
        return (f"{kind}.{cause}", f"{stem}.{cause}", stem)
    if diagnosis.culprit is None:
        return (f"{kind}.{cause}", f"{kind}.unknown", kind)
    if "kept" in given:
        cause = given["kept"]
    traits = [trait for trait in ("marked", "trained") if given.get(trait) and diagnosis.route != "inside"]
    return (f"{kind}.{cause}", *(f"{kind}.{trait}" for trait in traits), f"{kind}.{diagnosis.route}", kind)


def do_ids(diagnosis: Diagnosis) -> tuple[str, ...]:
    """Ids of the second sentence, the most special one first."""
    kind, given = diagnosis.kind, dict(diagnosis.arguments)
    ids = [f"{kind}.{given[choice]}" for choice in ("cause", "how", "kept") if choice in given]
    ids += [f"{kind}.{trait}" for trait in ("marked", "part", "whole", "same") if given.get(trait)]
    if given.get("op") in SHAPES:
        ids.append(f"{kind}.shape")
    if given.get("trained") and diagnosis.route in ("self", "detach", "data", "view"):
        ids += [f"{kind}.{diagnosis.route}.trained", f"{kind}.trained"]
    code = diagnosis.culprit.code if diagnosis.culprit else ""
    if diagnosis.route == "data" and f".data.{given.get('op')}(" in code:
        ids.append(f"{kind}.data.direct")
    if given.get("again_round"):
        ids.append(f"{kind}.again")
    if str(given.get("op", "")).endswith("(inplace=True)"):
        ids.append(f"{kind}.option")
    if given.get("result"):
        ids.append(f"{kind}.{diagnosis.route}.result")
    return (*ids, f"{kind}.{way(diagnosis)}", kind, f"{kind}.self")


def way(diagnosis: Diagnosis) -> str:
    """The route, told apart where torch saw the write from where it saw nothing."""
    unseen = diagnosis.route == "storage" and dict(diagnosis.arguments).get("op") in (EXTERNAL_WRITE, "")
    return "outside" if unseen else diagnosis.route


class _Words:
    """The words that fill one Diagnosis's templates."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        self._diagnosis = diagnosis
        self._given = dict(diagnosis.arguments)

    def say(self, templates: dict[str, str], *ids: str) -> str:
        """The first template that exists, translated and filled."""
        template = next((templates[each] for each in ids if each in templates), "")
        text = _(template)
        wanted = {name for _, name, _, _ in Formatter().parse(text) if name}
        return text.format(**{name: self._word(name) for name in wanted})

    def _word(self, name: str) -> str:
        makers: dict[str, Callable[[], str]] = {
            "Culprit": self._culprit,
            "culprit": lambda: self._line(self._diagnosis.culprit, code=True),
            "victim": lambda: self._line(self._diagnosis.victim),
            "now": lambda: str(self._diagnosis.version_now),
            "saved": lambda: str(self._diagnosis.version_saved),
            "node": lambda: self._diagnosis.node or "a Node",
            "name": lambda: self._diagnosis.tensor or "x",
            "copy": self._copy,
            "through": self._through,
            "need": self._need,
            "others": self._others,
            "leaves": self._leaves,
            "new": lambda: self._instead()[0],
            "old": lambda: self._instead()[1],
            "plain": lambda: str(self._given.get("op", "")).rstrip("_"),
            "detached": lambda: f"{self._diagnosis.tensor or '…'}.detach()",
            "why": lambda: self.say(WHY, str(self._given.get("reason") or self._given.get("cause"))),
        }
        return makers[name]() if name in makers else retold(str(self._given.get(name, "")))

    def _culprit(self) -> str:
        """At the start of a sentence; a file's name stays as it is."""
        place, text = self._diagnosis.culprit, self._line(self._diagnosis.culprit, code=True)
        return text if place is not None and text.startswith(PurePath(place.file).name) else _capital(text)

    def _line(self, place: Place | None, *, code: bool = False) -> str:
        if place is None:
            return _("a line before the recording")
        other = {each.file for each in (self._diagnosis.culprit, self._diagnosis.victim) if each} - {place.file}
        elsewhere = code and self._given.get("elsewhere")
        text = _("line {line} of {file}") if other or elsewhere else _("line {line}")
        text = text.format(line=place.line, file=PurePath(place.file).name)
        return _("{line} (`{code}`)").format(line=text, code=_short(place.code)) if code and place.code else text

    def _through(self) -> str:
        itself = self._given.get("alias") == self._given.get("label") and self._diagnosis.route not in (
            "inside",
            "storage",
        )
        return "" if itself or self._inner() else self.say(THROUGH, way(self._diagnosis))

    def _inner(self) -> bool:
        """True where the alias was made by an op that the culprit's line doesn't show: inside torch."""
        made = re.fullmatch(r"the result of `(\w+)` on line \d+", str(self._given.get("alias", "")))
        code = self._diagnosis.culprit.code if self._diagnosis.culprit else ""
        return made is not None and f"{made[1]}(" not in code and self._diagnosis.route == "view"

    def _copy(self) -> str:
        alias = str(self._given.get("alias", "")).strip("`")
        copy = f"{self._diagnosis.tensor or '…'}.detach().clone()"
        return f"{alias} = {copy}" if alias.isidentifier() and alias != self._diagnosis.tensor else copy

    def _need(self) -> str:
        needed = self._given.get("needed_for")
        return _(" for the gradient of {needed}").format(needed=retold(str(needed))) if needed else ""

    def _others(self) -> str:
        count = int(self._given.get("others") or 0)
        return (
            counted(" (and {count} more Node)", " (and {count} more Nodes)", count).format(count=count) if count else ""
        )

    def _instead(self) -> tuple[str, str]:
        """How to write the culprit out of place, and how it was written."""
        name, op = self._diagnosis.tensor or "y", str(self._given.get("op", ""))
        code = self._diagnosis.culprit.code if self._diagnosis.culprit else ""
        sign = AUGMENTED.search(code)
        if sign:
            left = code[: sign.start()].strip()
            name = left if self._given.get("whole") or PATH.fullmatch(left) else name
            return f"{name} = {name} {sign[1]} …", f"{name} {sign[1]}= …"
        if op == "__setitem__":
            return f"{name} = torch.where(…)", f"{name}[…] = …"
        if f".{op}(" in code and op.endswith("_"):
            return NO_TWIN.get(op, "{name}.{plain}(…)").format(name=name, op=op, plain=op[:-1]), f"{name}.{op}(…)"
        return f"{name} = {name} + …", f"{name} += …"

    def _leaves(self) -> str:
        count = int(self._given.get("leaves") or 0)
        return (
            counted(" (and {count} more leaf)", " (and {count} more leaves)", count).format(count=count)
            if count
            else ""
        )


PHRASES = {
    template: re.compile(GAP.sub(r"(?P<\1>.+?)", re.escape(template).replace(r"\{", "{").replace(r"\}", "}")))
    for template in (A_RESULT, OF_SHAPE, A_TENSOR)
}


def retold(text: str) -> str:
    """A label that a Diagnosis carries in English, in the language that is spoken; code stays as it is.

    >>> retold("`w` and the result of `exp` on line 3")
    '`w` and the result of `exp` on line 3'
    """
    return _(AND).join(_phrase(label) for label in text.split(AND))


def _phrase(label: str) -> str:
    for template, pattern in PHRASES.items():
        found = pattern.fullmatch(label)
        if found:
            return _(template).format(**found.groupdict())
    return label


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _short(code: str) -> str:
    code = code.split("  #")[0].rstrip()
    return code if len(code) <= MAX_CODE else code[: MAX_CODE - 1] + "…"
