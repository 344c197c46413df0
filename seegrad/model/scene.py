"""What the front end plays, as frozen data: where everything stands (Layout) and one SVG with all steps (Scene)."""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from seegrad.model.codec import as_kind
from seegrad.model.recording import Phase, Severity
from seegrad.words.errors import PictureError
from seegrad.words.languages import _

SCHEMA = 1

PART = "\ue001"  # stands around `id x y` in a body: the part of that name, at that place
AT_ORIGIN = "0.0 0.0"  # the place at which a shared part is kept

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Shape:
    """Something that takes room in the picture. Edges dock at `above_px` below its top."""

    id: str
    width_px: float
    above_px: float
    below_px: float


@dataclass(frozen=True, slots=True)
class Layout:
    """Where each Shape's docking line crosses its centre, and the bend points of each link, in the order given."""

    centres: tuple[tuple[str, Point], ...]
    routes: tuple[tuple[Point, ...], ...]
    width_px: float
    height_px: float
    crossings: int = 0


@dataclass(frozen=True, slots=True)
class SceneFrame:
    """One step: `line` is an index into `Scene.code`, `on` the ids of the items that this step is about.

    `message` is torch's own error text in full; `diagnosis` and `severity` are set where a Diagnosis shows, and so is
    `culprit`, an index into `Scene.code` as well, where a line did the damage.
    """

    phase: Phase
    title: str
    text: str
    line: int | None = None
    on: tuple[str, ...] = ()
    message: str = ""
    diagnosis: str = ""
    severity: Severity | None = None
    culprit: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the inspector: what it is called and, step by step, what it says from then on."""

    key: str
    values: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Item:
    """A card, pill or box that can be selected.

    `kind`: leaf, tensor, plain (needs no gradient), node, write, op, group. `level` is the id of the SceneLevel in
    which it is drawn, empty for the outermost.
    """

    id: str
    kind: str
    label: str
    born: int
    rows: tuple[Row, ...] = ()
    level: str = ""


@dataclass(frozen=True, slots=True)
class SceneLevel:
    """What is seen after opening a box: its inside in a frame among its neighbours, with every step.

    `parent` is the level around it, in which the frame stands; its own parent is around both.
    """

    id: str
    label: str
    parent: str | None
    body: str
    width_px: float
    height_px: float
    legend_px: float = 0.0  # what the legend takes below `height_px`


@dataclass(frozen=True, slots=True)
class Choice:
    """One possible answer, the misconception that it shows (`M05`) and what to say about it."""

    key: str
    label: str
    misconception: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """Something asked on the graph. Until it is answered, no step after `until_step` is shown.

    `truth` is JSON text. `targets` are what may be clicked or typed into: (item id or `line:N`, label). `name` is the
    variable in the line of Python that the player offers. `veil` is what the picture hides until the answer is given.
    """

    id: str
    kind: str
    prompt: str
    truth: str
    until_step: int
    choices: tuple[Choice, ...] = ()
    targets: tuple[tuple[str, str], ...] = ()
    right: str = ""
    wrong: str = ""
    evidence: tuple[str, ...] = ()
    name: str = "q1"
    veil: Literal["", "leaves", "counters", "keeps", "saves", "damage"] = ""


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that the player needs. `body` is the inside of one SVG that holds every step."""

    uid: str
    body: str
    view_box: str
    width_px: float
    height_px: float
    frames: tuple[SceneFrame, ...]
    items: tuple[Item, ...] = ()
    code: tuple[tuple[int, str], ...] = ()
    question: Question | None = None
    lang: str = "en"
    levels: tuple[SceneLevel, ...] = ()  # those inside boxes; `body` is the outermost
    parts: tuple[tuple[str, str], ...] = ()  # what the drawings of several levels share: (id, markup at the origin)
    legend_px: float = 0.0  # what the legend takes below `height_px`

    def level_of(self, step: int) -> str:
        """The level that has to be open at this step: where something is wrong, else the outermost."""
        if self.frames[step].severity not in ("error", "wrong"):
            return ""
        where = {item.id: item.level for item in self.items}
        return next((where[part] for part in reversed(self.frames[step].on) if part in where), "")

    def level(self, name: str) -> SceneLevel:
        """A level by its id, with its shared parts in place. Raises: KeyError when there is no such level."""
        outer = SceneLevel("", "", None, self.body, self.width_px, self.height_px, self.legend_px)
        level = {level.id: level for level in (outer, *self.levels)}[name]
        return dataclasses.replace(level, body=with_parts(level.body, dict(self.parts)))

    def last_word(self, step: int) -> str:
        """What a Diagnosis says at this step: the newest one so far that isn't a mere note."""
        own = self.frames[step].diagnosis
        earlier = [frame.diagnosis for frame in self.frames[:step] if frame.severity in ("error", "wrong")]
        return own or (earlier[-1] if earlier else "")

    def to_data(self) -> dict[str, typing.Any]:
        """Plain dicts and lists with the schema number, as the widget sends them."""
        plain: dict[str, typing.Any] = json.loads(json.dumps(self, default=_fields, ensure_ascii=False))
        return {"schema": SCHEMA, **plain}

    def to_json(self) -> str:
        """The Scene as JSON, the same bytes every time. `from_json` reads it back.

        >>> scene = Scene("a1", "", "0 0 1 1", 1, 1, ())
        >>> Scene.from_json(scene.to_json()) == scene
        True
        """
        plain = {"schema": SCHEMA, **_fields(self)}
        return json.dumps(plain, default=_fields, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Scene:
        """Read what `to_json` wrote. Raises PictureError with the reason when it can't."""
        try:
            data = json.loads(text)
            if data.pop("schema") != SCHEMA:
                said = _("This Scene isn't of schema {known}. Draw it again from its Recording.")
                raise PictureError(said.format(known=SCHEMA))
            return typing.cast(Scene, as_kind(cls, data))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            said = _("This isn't a Scene: {error}. Draw it again from its Recording.")
            raise PictureError(said.format(error=error)) from error


def placed(name: str, x: float, y: float) -> str:
    """What stands in a body for the part of that name, until `with_parts` or the player puts it there."""
    return f"{PART}{name} {x:.1f} {y:.1f}{PART}"


def with_parts(body: str, parts: Mapping[str, str]) -> str:
    """A body with every shared part at its place.

    >>> with_parts(placed("t1", 3, 4), {"t1": '<g transform="translate(0.0 0.0)"/>'})
    '<g transform="translate(3.0 4.0)"/>'
    """
    pieces = body.split(PART)
    for k in range(1, len(pieces), 2):
        name, place = pieces[k].split(" ", 1)
        pieces[k] = parts[name].replace(AT_ORIGIN, place, 1)
    return "".join(pieces)


def _fields(value: typing.Any) -> dict[str, typing.Any]:
    """The fields of one of this module's dataclasses."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
