"""What the front end plays, as frozen data: where everything stands (Layout) and one SVG with all steps (Scene)."""

from __future__ import annotations

import dataclasses
import json
import re
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from seegrad.model.codec import as_kind
from seegrad.model.packing import BETWEEN, packed, unpacked
from seegrad.model.recording import Phase, Severity
from seegrad.words.errors import PictureError
from seegrad.words.languages import _

SCHEMA = 1

PART = "\ue001"  # stands around `id x y` in a body: the part of that name, at that place
AT_ORIGIN = "0.0 0.0"  # the place at which a shared part is kept

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Shape:
    """Something that takes room in the picture. Edges dock at `above_px` below its top.

    `before_px` and `after_px`: for what sticks to its sides, beside the room between two columns.
    """

    id: str
    width_px: float
    above_px: float
    below_px: float
    before_px: float = 0.0
    after_px: float = 0.0


@dataclass(frozen=True, slots=True)
class Layout:
    """Where each Shape's docking line crosses its centre, and the bend points of each link, in the order given."""

    centres: tuple[tuple[str, Point], ...]
    routes: tuple[tuple[Point, ...], ...]
    width_px: float
    height_px: float
    crossings: int = 0


@dataclass(frozen=True, slots=True)
class Fix:
    """The line that mends a Diagnosis: where it stands, in words, as it was, and as it should be."""

    where: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class SceneFrame:
    """One step: `line` is an index into `Scene.code`, `on` the ids of the items that this step is about.

    `message` is torch's own error text in full; `diagnosis` and `severity` are set where a Diagnosis shows, and so is
    `culprit`, an index into `Scene.code` as well, where a line did the damage; `noted` where a note, which accuses
    nobody, is about a line.
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
    noted: int | None = None
    fix: Fix | None = None


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
class NumberSheet:
    """Numbers of a card to be walked through, from step `since` on; `key` is the inspector's line that they belong to.

    `kept` is the corner of `shape` that is there: `numbers` in row-major order with spaces between. `most` is the
    number furthest from 0 of the whole tensor, without its sign: where the scale of colours ends.
    """

    item: str
    key: str
    since: int
    shape: tuple[int, ...]
    kept: tuple[int, ...]
    most: str
    numbers: str


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
    asked_px: float = 0.0  # `height_px` while a question is open: below that nothing is shown yet


@dataclass(frozen=True, slots=True)
class Choice:
    """One possible answer, the misconception that it shows (`M05`), what to say of that, and of this very pick."""

    key: str
    label: str
    misconception: str = ""
    message: str = ""
    about: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """Something asked on the graph. Until it is answered, no step after `until_step` is shown.

    `truth` is JSON text. `targets` are what may be clicked or typed into: (item id or `line:N`, label). `name` is the
    variable in the line of Python that the player offers, `found |` where that adds to a dict. `veil` is what the
    picture hides until the answer is given. `numbers`: an answer tells Functions of one name apart, and so does the
    picture.
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
    numbers: bool = field(default=False, repr=False)  # a Scene's id follows from the pills, which bear the numbers


@dataclass(frozen=True, slots=True)
class Pass:
    """A stretch of steps with a picture of its own: one pass of a loop, or what stands before or after it.

    `scene` counts its steps from 0, which is step `first` of the whole. `number` is 0 around a loop. `loss` is the
    number of which backward was called last, as text, "" where it isn't known; `name` is what the program calls it.
    """

    label: str
    first: int
    number: int
    scene: Scene
    loss: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that the player needs. `body` is the inside of one SVG that holds every step.

    Where there are `passes`, each has its own picture, and `frames` are those of all passes.
    """

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
    asked_px: float = 0.0  # its height while a question is open
    passes: tuple[Pass, ...] = ()
    alone: bool = False  # is a level drawn without those around it?
    sheets: tuple[NumberSheet, ...] = ()  # of tensors that don't fit on their cards

    def drawn_at(self, step: int) -> tuple[Scene, int]:
        """The Scene that shows a step, and the step's number in it."""
        here = next((each for each in reversed(self.passes) if each.first <= step), None)
        return (here.scene, step - here.first) if here else (self, step)

    def first_look(self) -> int:
        """The step to begin with: the newest one at which something is wrong, where there are passes, else the last."""
        wrong = [k for k, frame in enumerate(self.frames) if frame.severity in ("error", "wrong")]
        return wrong[-1] if wrong and self.passes else len(self.frames) - 1

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

    def to_data(self, *, packed: bool = False) -> dict[str, typing.Any]:
        """Plain dicts and lists with the schema number, as the widget sends them; a large Scene `packed` anyway."""
        if packed or self.passes or self.levels:
            return {"schema": SCHEMA, **_packed(self)}
        plain: dict[str, typing.Any] = json.loads(json.dumps(self, default=_fields, ensure_ascii=False))
        return {"schema": SCHEMA, **plain}

    def to_json(self) -> str:
        """The Scene as JSON, the same bytes every time. `from_json` reads it back.

        >>> scene = Scene("a1", "", "0 0 1 1", 1, 1, ())
        >>> Scene.from_json(scene.to_json()) == scene
        True
        """
        return json.dumps(self.to_data(), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Scene:
        """Read what `to_json` wrote. Raises PictureError with the reason when it can't."""
        try:
            data = json.loads(text)
            if data.pop("schema") != SCHEMA:
                said = _("This Scene isn't of schema {known}. Draw it again from its Recording.")
                raise PictureError(said.format(known=SCHEMA))
            return typing.cast(Scene, as_kind(cls, _whole(data) if "templates" in data else data))
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
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


RECORDS = ("frames", "items", "parts")
"""What a Scene holds many of."""
CHUNK = re.compile(f'(?=<g class="(?:edges|pins)">)|(?<=</g>)(?={PART})|(?<={PART})(?=<)')
"""Where a body is cut into chunks, such as all lines of one level: several bodies have them."""
SEAM = re.compile(f"(?<=>)(?=[<{PART}])|(?<={PART})(?=<)")
"""Where a chunk is cut into pieces that are alike: lines, tags, parts at their places."""


def _packed(scene: Scene) -> dict[str, typing.Any]:
    """A Scene's fields, with its records and the pieces of its bodies as rows of templates that its passes share."""
    texts: list[str] = []
    spans: list[tuple[dict[str, typing.Any], str, int, int]] = []
    chunks: dict[str, int] = {}

    def put(plain: dict[str, typing.Any], name: str, told: list[str]) -> None:
        spans.append((plain, name, len(texts), len(texts) + len(told)))
        texts.extend(told)

    def head(scene: Scene) -> dict[str, typing.Any]:
        plain = _fields(dataclasses.replace(scene, passes=()))
        for name in RECORDS:
            put(plain, name, [json.dumps(record, default=_fields, ensure_ascii=False) for record in plain[name]])
        plain["levels"] = [_fields(level) for level in scene.levels]
        for level in (plain, *plain["levels"]):
            pieces = filter(None, CHUNK.split(level["body"]))
            level["body"] = " ".join(str(chunks.setdefault(chunk, len(chunks))) for chunk in pieces)
        return plain

    whole = head(scene)
    whole["passes"] = [
        {**_fields(each), "scene": head(dataclasses.replace(each.scene, frames=(), code=()))} for each in scene.passes
    ]
    drawn: list[dict[str, typing.Any]] = [{} for _chunk in chunks]
    for place, chunk in zip(drawn, chunks, strict=True):
        put(place, "rows", SEAM.split(chunk))
    whole["templates"], rows = packed(texts)
    for plain, name, first, stop in spans:
        plain[name] = BETWEEN.join(rows[first:stop])
    whole["drawings"], rows = packed([place["rows"] for place in drawn])  # those of two passes differ little
    whole["chunks"] = BETWEEN.join(rows)
    return typing.cast(dict[str, typing.Any], json.loads(json.dumps(whole, default=_fields, ensure_ascii=False)))


def _whole(data: dict[str, typing.Any]) -> dict[str, typing.Any]:
    """What `_packed` has packed."""
    templates, drawings = data.pop("templates"), data.pop("drawings")

    def texts(rows: str) -> list[str]:
        return [unpacked(templates, row) for row in rows.split(BETWEEN)] if rows else []

    rows = filter(None, data.pop("chunks").split(BETWEEN))
    chunks = ["".join(texts(unpacked(drawings, row))) for row in rows]

    def opened(plain: dict[str, typing.Any]) -> dict[str, typing.Any]:
        for name in RECORDS:
            plain[name] = [json.loads(text) for text in texts(plain[name])]
        for level in (plain, *plain["levels"]):
            level["body"] = "".join(chunks[int(k)] for k in level["body"].split())
        return plain

    opened(data)
    firsts = [each["first"] for each in data["passes"]] + [len(data["frames"])]
    for each, stop in zip(data["passes"], firsts[1:], strict=True):
        opened(each["scene"])["frames"] = data["frames"][each["first"] : stop]
    return data


def _fields(value: typing.Any) -> dict[str, typing.Any]:
    """The fields of one of this module's dataclasses."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
