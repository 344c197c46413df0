"""A Diagnosis in words: two sentences, what happened and what to do.

The English templates are the message ids of the gettext catalogues in `seegrad/locale`; a language without a
catalogue, or a sentence that it lacks, falls back to English.
"""

from __future__ import annotations

import gettext
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path, PurePath
from string import Formatter

from .model import Diagnosis, Place

LANGUAGES = ("en", "zh_CN")
LOCALE = Path(__file__).parent / "locale"
MAX_CODE = 60


def _(template: str) -> str:
    """Mark a template for the catalogues."""
    return template


WHAT: dict[str, str] = {
    "saved_tensor_modified": _(
        "{Culprit} overwrote {label}{through}: its version is {now}, "
        "but {node} from {victim} saved version {saved}{need}."
    ),
    "saved_tensor_modified.unknown": _(
        "{label} was overwritten on a line that was not recorded: its version is {now}, "
        "but {node} from {victim} saved version {saved}{need}."
    ),
    "silent_corruption": _(
        "{Culprit} overwrote {label}{through}, after {node} from {victim} had saved it{need}{others}; "
        "the version stayed {saved}, so torch raised nothing and the gradient is wrong."
    ),
    "silent_corruption.unknown": _(
        "The bytes of {label} changed after {node} from {victim} had saved it{need}{others}; "
        "the version stayed {saved}, so torch raised nothing and the gradient is wrong."
    ),
    "leaf_modified": _(
        "{Culprit} writes in place to {label}, a leaf that requires grad: autograd would lose the value "
        "that the gradient belongs to, so torch refuses before anything is written."
    ),
    "leaf_modified.view": _(
        "{Culprit} writes in place to a view of {label}, a leaf that requires grad: it would change the leaf itself, "
        "so torch refuses before anything is written."
    ),
    "graph_freed": _(
        "The backward call on line {again} needs what {node} from {victim} had saved, "
        "but {culprit} has freed it already."
    ),
    "graph_freed.unknown": _(
        "The backward call on line {again} needs what {node} from {victim} had saved, "
        "but an earlier backward call has freed it already."
    ),
    "graph_cut.error": _("{label} has no graph behind it, because {culprit} cut it: {why}."),
    "graph_cut.error.nothing": _(
        "{label} has no graph behind it: none of the recorded tensors that led to it requires grad."
    ),
    "graph_cut.note": _("{label} led to the loss but got no gradient, because {culprit} cut the graph: {why}."),
    "graph_cut.overwritten": _(
        "{Culprit} overwrote {given}, so whatever made it no longer matters: "
        "the gradient of {label} is 0 by construction."
    ),
    "version_moved": _(
        "{Culprit} overwrote {label}{through}: its version is {now}, "
        "but {node} from {victim} saved version {saved}{need}."
    ),
}

THROUGH: dict[str, str] = {
    "detach": _(" through {alias}, which `.detach()` made to share memory and version with it"),
    "data": _(" through {alias}, which shares the memory of its `.data` but not its version"),
    "view": _(" through {alias}, a view of the same memory"),
    "storage": _(" behind torch's back"),
    "inside": _(" inside `{op}`"),
}

WHY: dict[str, str] = {
    "detach": _("`.detach()` returns {given} without its history"),
    "data": _("`.data` returns {given} without its history"),
    "no_grad": _("`{op}` ran with gradients switched off"),
    "op": _("`{op}` has no derivative for {given}, so its result does not require grad"),
}

DO: dict[str, str] = {
    "saved_tensor_modified.detach.result": _(
        "Give the write its own memory, `{alias_name} = {name}.detach().clone()`, "
        "or move it below the backward call; the alias of `.detach()` is for reading."
    ),
    "saved_tensor_modified.detach": _(
        "Give the write its own memory, `{alias_name} = {name}.detach().clone()`, or move it above {victim}, "
        "where {node} saves {label}, or below the backward call."
    ),
    "saved_tensor_modified.view": _(
        "A view is the same memory: build the new value without writing into {label} (`torch.cat`, `torch.where`), "
        "or move the write above {victim} or below the backward call."
    ),
    "saved_tensor_modified.self.result": _(
        "{node} computes its gradient from its own result: make a new tensor instead "
        "(`y = y + 1`, not `y += 1`), or move the write below the backward call."
    ),
    "saved_tensor_modified.self": _(
        "Move the write above {victim}, where {node} saves {label}, or keep {label} and give the new value a new name."
    ),
    "saved_tensor_modified.parameter": _(
        "An update belongs after the backward call that uses the old value: call backward first, then write {label}, "
        "or run the forward again after the write."
    ),
    "saved_tensor_modified.inside": _(
        "`{op}` writes its argument although its name does not say so: run it before {victim} uses {label}, "
        "or let {victim} use `{name}.clone()`, which keeps the value from before the write."
    ),
    "saved_tensor_modified.option": _(
        "Build that module or call without `inplace=True`: "
        "{node} computes its gradient from the value that it replaced."
    ),
    "saved_tensor_modified.storage": _(
        "Find who shares the memory of {label}, and give that its own copy before it writes."
    ),
    "silent_corruption.data": _(
        "Replace `.data` by `.detach()` and torch will raise here instead; to be right, write to a copy, "
        "`{name}.detach().clone()`, or after the backward call."
    ),
    "silent_corruption.inside": _(
        "`{op}` does not move the version of what it writes: let the backward call come before it, "
        "or run the forward again after it."
    ),
    "silent_corruption.storage": _(
        "Torch cannot see writes through numpy or a raw pointer: write to a copy, `{name}.detach().clone().numpy()`, "
        "or after the backward call."
    ),
    "silent_corruption": _(
        "The version counter was held back while the bytes changed: write without that, so that torch can check, "
        "or write after the backward call."
    ),
    "leaf_modified": _(
        "To set or update values outside the graph, write under `with torch.no_grad():`; "
        "to compute with a changed value, make a new tensor, for example `{name}_new = {name} + …`."
    ),
    "leaf_modified.parameter": _(
        "To initialise or update a parameter, write under `with torch.no_grad():` or use `torch.nn.init`; "
        "to compute with a changed value, make a new tensor."
    ),
    "graph_freed": _(
        "Run the forward again before each backward, or pass `retain_graph=True` to the first call "
        "if both really belong to one forward."
    ),
    "graph_freed.shared": _(
        "The two losses share this part of the graph: add them and call backward once, "
        "or pass `retain_graph=True` to the first call."
    ),
    "graph_cut.detach": _("Use {given} itself where the gradient should flow; keep `.detach()` if the cut is meant."),
    "graph_cut.data": _("Use {given} itself where the gradient should flow; if the cut is meant, write `.detach()`."),
    "graph_cut.no_grad": _("Move this line out of the `no_grad` block if the gradient should flow through it."),
    "graph_cut.op": _(
        "Use an op that has a derivative (a soft version instead of a choice or a comparison), "
        "or call `.detach()` to say that the cut is meant."
    ),
    "graph_cut.nothing": _("Set `requires_grad=True` on the tensors you want a gradient for, before the forward runs."),
    "graph_cut.overwritten": _(
        "Compute with {given} before this line, or write only the part that you mean to replace."
    ),
    "version_moved": _(
        "No backward has run yet, so nothing is wrong so far: if it runs, torch will raise, "
        "so move the write below it or above {victim}."
    ),
}


def sentence(diagnosis: Diagnosis, lang: str = "en") -> str:
    """Two sentences: what happened (culprit, victim, tensor, versions), what to do.

    An unknown language falls back to English.

    >>> from seegrad.model import Diagnosis, Place
    >>> print(sentence(Diagnosis("leaf_modified", "error", True, Place("a.py", 3, "w.normal_()"), None, None, "w",
    ...     arguments=(("label", "`w`"), ("op", "normal_"), ("parameter", 0)))))
    Line 3 (`w.normal_()`) writes in place to `w`, a leaf that requires grad: autograd would lose the value that the \
gradient belongs to, so torch refuses before anything is written. To set or update values outside the graph, write \
under `with torch.no_grad():`; to compute with a changed value, make a new tensor, for example `w_new = w + …`.
    """
    words = _Words(diagnosis, lang)
    return f"{words.say(WHAT, *what_ids(diagnosis))} {words.say(DO, *do_ids(diagnosis))}"


def what_ids(diagnosis: Diagnosis) -> tuple[str, ...]:
    """Ids of the first sentence, the most special one first; the first that exists is used."""
    kind, cause = diagnosis.kind, dict(diagnosis.arguments).get("cause")
    if kind == "graph_cut":
        stem = f"{kind}.{'error' if diagnosis.raised else 'note'}"
        return (f"{kind}.{cause}", f"{stem}.{cause}", stem)
    return (f"{kind}.unknown", kind) if diagnosis.culprit is None else (f"{kind}.{diagnosis.route}", kind)


def do_ids(diagnosis: Diagnosis) -> tuple[str, ...]:
    """Ids of the second sentence, the most special one first."""
    kind, given = diagnosis.kind, dict(diagnosis.arguments)
    ids = [f"{kind}.{given['cause']}"] if "cause" in given else []
    if given.get("shared"):
        ids.append(f"{kind}.shared")
    if given.get("parameter") and diagnosis.route in ("self", "detach", "view"):
        ids.append(f"{kind}.parameter")
    if str(given.get("op", "")).endswith("(inplace=True)"):
        ids.append(f"{kind}.option")
    if given.get("result"):
        ids.append(f"{kind}.{diagnosis.route}.result")
    return (*ids, f"{kind}.{diagnosis.route}", kind, f"{kind}.self")


class _Words:
    """The words that fill one Diagnosis's templates."""

    def __init__(self, diagnosis: Diagnosis, lang: str) -> None:
        self._lang = lang
        self._diagnosis = diagnosis
        self._given = dict(diagnosis.arguments)

    def say(self, templates: dict[str, str], *ids: str) -> str:
        """The first template that exists, translated and filled."""
        template = next((templates[each] for each in ids if each in templates), "")
        text = translate(template, self._lang)
        wanted = {name for _, name, _, _ in Formatter().parse(text) if name}
        return text.format(**{name: self._word(name) for name in wanted})

    def _word(self, name: str) -> str:
        makers: dict[str, Callable[[], str]] = {
            "Culprit": lambda: _capital(self._line(self._diagnosis.culprit, code=True)),
            "culprit": lambda: self._line(self._diagnosis.culprit, code=True),
            "victim": lambda: self._line(self._diagnosis.victim),
            "now": lambda: str(self._diagnosis.version_now),
            "saved": lambda: str(self._diagnosis.version_saved),
            "node": lambda: self._diagnosis.node or "a Node",
            "name": lambda: self._diagnosis.tensor or "x",
            "alias_name": lambda: str(self._given.get("alias", "y")).strip("`"),
            "through": self._through,
            "need": self._need,
            "others": self._others,
            "why": lambda: self.say(WHY, str(self._given.get("cause"))),
        }
        return makers[name]() if name in makers else str(self._given.get(name, ""))

    def _line(self, place: Place | None, *, code: bool = False) -> str:
        if place is None:
            return translate(_("a line before the recording"), self._lang)
        other = {each.file for each in (self._diagnosis.culprit, self._diagnosis.victim) if each} - {place.file}
        text = translate(_("line {line} of {file}") if other else _("line {line}"), self._lang)
        text = text.format(line=place.line, file=PurePath(place.file).name)
        return f"{text} (`{_short(place.code)}`)" if code and place.code else text

    def _through(self) -> str:
        itself = self._given.get("alias") == self._given.get("label") and self._diagnosis.route not in (
            "inside",
            "storage",
        )
        return "" if itself else self.say(THROUGH, self._diagnosis.route)

    def _need(self) -> str:
        needed = self._given.get("needed_for")
        return translate(_(" for the gradient of {needed}"), self._lang).format(needed=needed) if needed else ""

    def _others(self) -> str:
        count = self._given.get("others")
        return translate(_(" (and {count} more Nodes)"), self._lang).format(count=count) if count else ""


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _short(code: str) -> str:
    return code if len(code) <= MAX_CODE else code[: MAX_CODE - 1] + "…"


@cache
def _catalogue(lang: str) -> gettext.NullTranslations:
    return gettext.translation("seegrad", LOCALE, [lang], fallback=True)


def translate(template: str, lang: str) -> str:
    """The template in that language, English where there's none."""
    return _catalogue(lang).gettext(template) if template and lang != "en" else template


def language() -> str:
    """The language to speak: SEEGRAD_LANG, else the folder of the running notebook, else English."""
    wanted = os.environ.get("SEEGRAD_LANG", "")
    if wanted in LANGUAGES:
        return wanted
    folders = PurePath(os.environ.get("JPY_SESSION_NAME", "")).parts
    return next((folder for folder in reversed(folders) if folder in LANGUAGES), "en")
