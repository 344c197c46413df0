"""What one `record()` saw, as frozen data: no torch, no Jupyter, no I/O. Memory addresses never leave `capture`.

All is numbered from 0 in the order in which it was first seen: two runs of one program give the same Recording.
"""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Literal

from seegrad.model.codec import as_kind
from seegrad.words.errors import RecordingError
from seegrad.words.languages import _, marked, speaking
from seegrad.words.phrases import Phrase, told

SCHEMA = 2

FrameId = Annotated[int, "frame"]
TensorId = Annotated[int, "tensor"]
NodeId = Annotated[int, "node"]
WriteId = Annotated[int, "write"]
HookId = Annotated[int, "hook"]
"""What a number is the number of: `capture` numbers everything anew at the end, and goes by these."""

Phase = Literal["start", "forward", "inplace", "backward", "error"]
"""What a Frame shows: the beginning, an op, an in-place write, one engine event, torch's error."""

Severity = Literal["error", "wrong", "note", "differs"]
"""`error`: torch raised. `wrong`: a gradient is, silently. `note`: hardly meant. `differs`: from another Recording."""

Route = Literal["self", "view", "detach", "data", "storage", "inside"]
"""How a name reaches a storage: itself, a view, `.detach()`, `.data`, behind torch's back (numpy …), inside an op."""

Preview = tuple[tuple[str, ...], ...]
"""A small tensor's numbers, formatted, row by row; a scalar is one row of one. None: bigger than 4×4."""

EXTERNAL_WRITE = "write outside torch"  # this and the next two are no ops of torch's
"""A Write that torch never saw: numpy, a raw pointer."""

STEP = "step"
"""An optimiser's step, of torch's own code: one event, whatever ops it is made of."""

GRADIENT_READ = ".grad"  # a gradient was read that isn't kept
LOADER = "DataLoader"  # the `module` of what a loader does for a batch: the lines of a Dataset, the putting together


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the user's code. `file` is a path as given to Python, or `In [3]` for a notebook cell.

    >>> str(Place("train.py", 12, "out.zero_()"))
    'train.py:12: out.zero_()'
    """

    file: str
    line: int
    code: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.code}"


@dataclass(frozen=True, slots=True)
class TensorRef:
    """One tensor object. `name` is the user's variable, None where none was found.

    `storage` and `counter` number the bytes and the version counter: two tensors with the same `storage` share memory,
    with the same `counter` also the version. A view and a `.detach()` share both with `alias_of`; a `.data` shares the
    storage alone. `counter` is None for an inference tensor, which has none.
    """

    id: TensorId
    name: str | None
    shape: tuple[int, ...]
    dtype: str
    device: str
    is_leaf: bool
    requires_grad: bool
    storage: int
    counter: int | None
    span: tuple[int, int]  # bytes inside the storage: start, stop
    frame: FrameId  # index of the Frame in which it was first seen
    alias_of: TensorId | None = None
    route: Route = "self"
    parameter: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """Input slot `slot` of a Node → output `output_nr` of Node `target` (None: that input needs no gradient)."""

    slot: int
    target: NodeId | None
    output_nr: int


@dataclass(frozen=True, slots=True)
class SavedTensor:
    """What a Node keeps for backward: its `_saved_<attr>`. `serves` are the input slots whose gradient reads it."""

    attr: str
    tensor: TensorId | None
    version: int | None
    storage: int
    span: tuple[int, int]
    serves: tuple[int, ...] = ()
    checked: bool = True  # False: a hook or an attribute of the Node keeps it, torch never looks at its version


@dataclass(frozen=True, slots=True)
class Node:
    """One backward Function. `name` as torch prints it; `leaf` is the tensor of an AccumulateGrad, else None.

    `inputs` are the tensors given to the op in the order of the Edges where known (same length, None where
    unknown or not a tensor); `outputs` the tensors whose `grad_fn` it was when it was made.
    """

    id: NodeId
    name: str
    op: str
    frame: FrameId
    edges: tuple[Edge, ...]
    saved: tuple[SavedTensor, ...]
    inputs: tuple[TensorId | None, ...] = ()
    outputs: tuple[TensorId, ...] = ()
    leaf: TensorId | None = None
    inplace: bool = False
    axis: int | None = None  # of a softmax: the dimension along which it normalises, as torch was given it


@dataclass(frozen=True, slots=True)
class Write:
    """One mutation of a storage, through `tensor`."""

    id: WriteId
    frame: FrameId
    tensor: TensorId
    storage: int
    span: tuple[int, int]
    op: str
    place: Place
    version_before: int | None
    version_after: int | None


@dataclass(frozen=True, slots=True)
class Summary:
    """What is known of a tensor that is too big for a Preview, where `values` is on.

    `low`, `high` and `norm` are those of its finite numbers, "" where it has none. `strip` is cut out of its numbers in
    row-major order, in stretches of equal length: of each the number furthest from 0, or `nan`. `kept` is the shape of
    the corner whose `numbers` are kept, in row-major order with spaces between: () where none are.
    """

    low: str
    high: str
    norm: str
    zeros: int
    nans: int
    infinities: int
    strip: tuple[str, ...]
    kept: tuple[int, ...] = ()
    numbers: str = field(default="", repr=False)

    @property
    def is_finite(self) -> bool:
        """False where it holds a NaN or an infinity."""
        return not (self.nans or self.infinities)


@dataclass(frozen=True, slots=True)
class Gradient:
    """A gradient seen while backward ran. `kept`: it was stored in `.grad` (the value is then all of `.grad`)."""

    tensor: TensorId
    preview: Preview | None
    shape: tuple[int, ...]
    kept: bool = False
    summary: Summary | None = None


@dataclass(frozen=True, slots=True)
class Frame:
    """The state after one event. Only what changed in it is held.

    `backward` frames are one engine event each: `running` is the Node that received a gradient.
    """

    index: FrameId
    phase: Phase
    place: Place | None
    op: str
    inputs: tuple[TensorId, ...] = ()
    outputs: tuple[TensorId, ...] = ()
    nodes: tuple[NodeId, ...] = ()  # Nodes born
    writes: tuple[WriteId, ...] = ()  # Writes made; of a custom Function's call also those with Frames of their own
    values: tuple[tuple[TensorId, Preview | None], ...] = ()  # tensor → numbers after this frame
    versions: tuple[tuple[TensorId, int | None], ...] = ()  # tensor → version after this frame
    running: NodeId | None = None
    gradients: tuple[Gradient, ...] = ()
    backward: int | None = None  # which backward or grad call (0, 1, …) this frame belongs to
    grad_enabled: bool = True
    corrupted: tuple[int, ...] = ()  # of the running Node: indices of `saved` whose bytes changed behind the version
    module: str = ""  # path of the innermost nn.Module whose forward made this op: `model.layers.3.linear1`
    spoiled: tuple[WriteId, ...] = ()  # Writes that hit the gradient which the running Node was given, before it had it
    wanted: tuple[TensorId, ...] = ()  # the tensors whose gradient `autograd.grad` was asked for
    applied: Place | None = None  # of an op inside a custom Function's forward: the line that called the Function
    off: Place | None = None  # of an op with gradients off: the `with` line, or decorator, inside which it ran
    built: Place | None = None  # of a module that writes in place as built to, makes or takes probabilities: its line
    taken: Place | None = None  # of an op on a line that returns what it makes: the user's line that takes that
    keeps_graph: bool = False  # of a backward Frame: called with retain_graph or create_graph, so nothing is freed
    summaries: tuple[tuple[TensorId, Summary | None], ...] = ()  # tensor too big for `values` → what is known of it


@dataclass(frozen=True, slots=True)
class HookCall:
    """A hook ran in a backward Frame: what it saw, what it gave instead. Not `alone`: the first saw, the last gave."""

    frame: FrameId
    saw: Preview | None
    returned: Preview | None = None
    alone: bool = True


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook of the user, registered after Frame `frame`. `retain`: `retain_grad()`; `name` is the callable's."""

    id: HookId
    kind: Literal["tensor", "accumulated", "retain", "node", "node_pre"]
    frame: FrameId
    place: Place | None
    tensor: TensorId | None = None
    node: NodeId | None = None
    name: str = ""
    calls: tuple[HookCall, ...] = ()


@dataclass(frozen=True, slots=True)
class GradientUse:
    """What was done with gradients after Frame `frame`: an optimiser stepped, somebody cleared, clipped, unscaled.

    `read`: the user's own code looked at some. `scheduled`: before an optimiser's first step, its schedule had gone on
    already. `idle`: an optimiser made on that line holds these leaves and hasn't stepped so far; `uncalled`: that line
    names its `step` without calling it. `early`: that line clips these before any has a gradient, and a step used them.
    `tensors`: each leaf, and the version that its gradient then had; None where there was none to step with.
    """

    kind: Literal["cleared", "read", "stepped", "clipped", "early", "unscaled", "scheduled", "idle", "uncalled"]
    frame: FrameId
    place: Place | None
    tensors: tuple[tuple[TensorId, int | None], ...]


@dataclass(frozen=True, slots=True)
class Extremes:
    """The smallest and the largest number of a tensor after Frame `frame`: NaN if one is. Of all with `check_nan`.

    Of gradients instead: those that Node `node` was given in that backward call, or what it handed on for input `slot`.
    `always`: and in each backward call before it that has reached the Node's leaf.
    """

    frame: FrameId
    low: str
    high: str
    tensor: TensorId | None = None
    node: NodeId | None = None
    slot: int | None = None
    backward: int | None = None
    always: bool = False


@dataclass(frozen=True, slots=True)
class Switch:
    """Gradients were switched off or on after Frame `frame`: for all that follows (`mode`), or for these tensors.

    `scope`: a backward call was made inside the `with torch.no_grad():` of that line. `unheard`: `name` was set, an
    attribute that torch doesn't read (`model.backbone.requires_grad`): nothing was switched for `tensors`.
    `guarded`: that line asks whether a gradient is on before it is switched, and was to switch these on again.
    """

    kind: Literal["mode", "scope", "tensors", "unheard", "guarded"]
    on: bool
    frame: FrameId
    place: Place | None
    tensors: tuple[TensorId, ...] = ()
    name: str = ""


@dataclass(frozen=True, slots=True)
class Collected:
    """A list or dict of the user's, called `name`, that held these results with their graphs after Frame `frame`.

    `place` is the line that puts them in, where it was found.
    """

    name: str
    frame: FrameId
    place: Place | None
    tensors: tuple[TensorId, ...]


@dataclass(frozen=True, slots=True)
class Clue:
    """What a probe has seen in the user's own program after Frame `frame`: a line, and the tensors it is about.

    `kind` is the probe's and the finder's word for it; `facts`, name → words, are what is said beside.
    """

    kind: str
    frame: FrameId
    place: Place
    tensors: tuple[TensorId, ...]
    facts: tuple[tuple[str, str], ...] = ()

    def fact(self, name: str) -> str:
        """One of its facts. Raises: KeyError where its probe gave none of that name."""
        return dict(self.facts)[name]


@dataclass(frozen=True, slots=True)
class FunctionCheck:
    """A custom Function's backward gave another slope than central differences, by one argument of its forward.

    `deaf`: it gave the same for twice the `grad_output`; where nothing was compared and `found` is empty, its code
    never reads that, which is `argument` then. `applied` is the line that used it in Frame `frame`, `place`
    the one that defines its backward.
    """

    function: str
    argument: str
    found: str
    expected: str
    deaf: bool
    frame: FrameId
    applied: Place
    place: Place | None


@dataclass(frozen=True, slots=True)
class Recomputed:
    """A checkpoint's second run differed from its first, in Frame `frame`; `fewer`: it ended without that.

    `left`: its line that read what the first has left behind, or decides for `fewer`. `drawn`: what draws for that.
    """

    frame: FrameId
    op: str
    again: str
    how: Literal["op", "shape", "numbers", "fewer"]
    left: Place | None = None
    drawn: Place | None = None
    unkept: Place | None = None  # the line that has torch's generators go on, from which it drew


@dataclass(frozen=True, slots=True)
class RaisedError:
    """An error that left the block, as torch or Python raised it. `node` is the Node that was running.

    `bound`: of a backward call, variable → the line that gave it what it holds, in the functions under way; `given`: of
    what one was given, its caller's name for it. `remade`: the line that made what a gradient was asked for → the one
    of these functions that calls the function of that. `inside`: the line where the backward of a running Function
    returns; `handed`: the place of a variable there → the line that made it. `held`: of a copy that torch refused, the
    attribute that holds the tensor, `among` others in a collection, or torch's function that keeps it there; `held_on`:
    the line that puts it there. Of numpy, the list that it's `among`. `raised_on`: the user's line that raised it while
    a backward ran. `ways`: the lines under way, outermost first, of it, and of the last before that ran `node`.
    """

    kind: str
    text: str
    place: Place | None
    frame: FrameId
    node: NodeId | None = None
    bound: tuple[tuple[str, Place], ...] = ()
    inside: Place | None = None
    raised_on: Place | None = None
    held: str = ""
    among: bool = False
    held_on: Place | None = None
    given: tuple[tuple[str, str], ...] = ()
    remade: tuple[tuple[Place, Place], ...] = ()
    ways: tuple[tuple[Place, ...], ...] = ()
    handed: tuple[tuple[int, Place], ...] = ()


EARLIER = marked(
    "{kind}: {place}. An earlier seegrad stored this Recording: `seegrad.diagnose.diagnose(recording)` tells more."
)
"""What a Diagnosis without words says."""


@dataclass(frozen=True, slots=True)
class Mend:
    """The line to put in the place of another, without its indentation: what `place.code` should have been."""

    place: Place
    line: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What went wrong, who did it, who was hit; and its words, as Phrases that `message()` says.

    `arguments` are the facts behind the words: plain strings and numbers only. `title` names the kind, `tag` is what
    the picture pins to the victim. `mend` is the advice as a line of code, where one line does. `instead`: the other
    lines that mend it, each with what a change there does.
    """

    kind: str
    severity: Severity
    raised: bool
    culprit: Place | None
    victim: Place | None
    node: str | None
    tensor: str | None
    version_saved: int | None = None
    version_now: int | None = None
    route: Route = "self"
    arguments: tuple[tuple[str, str | int], ...] = ()
    node_id: int | None = None
    tensor_id: int | None = None
    write_id: int | None = None
    frame: int | None = None  # the Frame in which it shows
    title: str = field(default="", repr=False)
    said: Phrase | None = field(default=None, repr=False)  # None: read from what an earlier seegrad stored
    advice: Phrase | None = field(default=None, repr=False)
    tag: tuple[Phrase, ...] = field(default=(), repr=False)
    mend: Mend | None = field(default=None, repr=False)
    instead: tuple[tuple[Place, Phrase], ...] = field(default=(), repr=False)

    def message(self, lang: str | None = None) -> str:
        """What happened, and what to do; in `lang`, else (of an unknown one, too) in the reader's own, or English."""
        with speaking(lang):
            if self.said is None:
                return _(EARLIER).format(kind=_(self.kind.replace("_", " ")), place=self.culprit or self.victim or "?")
            return told(self.said, *filter(None, (self.advice, *(said for _place, said in self.instead))))

    def __str__(self) -> str:
        return self.message()


@dataclass(frozen=True, slots=True)
class Recording:
    """Everything one `record()` saw. `code` holds the source lines of the recorded block, for display."""

    frames: tuple[Frame, ...] = ()
    tensors: tuple[TensorRef, ...] = ()
    nodes: tuple[Node, ...] = ()
    writes: tuple[Write, ...] = ()
    diagnoses: tuple[Diagnosis, ...] = ()
    error: RaisedError | None = None
    code: tuple[tuple[int, str], ...] = ()  # (line number, text)
    code_file: str = ""
    root: TensorId | None = None  # the tensor that backward was called on, last call
    versions: tuple[tuple[str, str], ...] = field(default=())  # ("torch", "2.13.0"), …
    errors: tuple[RaisedError, ...] = ()  # every error that torch raised, also those the block caught
    hooks: tuple[Hook, ...] = ()
    uses: tuple[GradientUse, ...] = ()
    extremes: tuple[Extremes, ...] = ()
    switches: tuple[Switch, ...] = ()
    collected: tuple[Collected, ...] = ()
    clues: tuple[Clue, ...] = ()
    checks: tuple[FunctionCheck, ...] = ()
    recomputed: tuple[Recomputed, ...] = ()
    laps: tuple[FrameId, ...] = ()  # of each old lap of which something is left, the last Frame that is

    def clues_of(self, *kinds: str) -> Iterator[Clue]:
        """What the probes have told under these words, in their order."""
        return (each for each in self.clues if each.kind in kinds)

    def to_json(self) -> str:
        """The Recording as JSON, the same bytes every time. `from_json` reads it back.

        >>> Recording.from_json(Recording().to_json()) == Recording()
        True
        """
        data = {"schema": SCHEMA, "recording": dataclasses.asdict(self)}
        return json.dumps(data, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Recording:
        """Read what `to_json` wrote. Raises RecordingError with the reason when it can't."""
        try:
            data = json.loads(text)
        except ValueError as error:
            raise RecordingError(_("This isn't a Recording: it isn't JSON ({error}).").format(error=error)) from error
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            found = data.get("schema") if isinstance(data, dict) else None
            said = _("This Recording has schema {found}, seegrad reads {known}. Record it again.")
            if isinstance(data, dict) and "findings" in data:  # what `--json` writes, where `--save` was meant
                said = _("This isn't a Recording: it's what was found in one. `--save` writes the Recording.")
            raise RecordingError(said.format(found=repr(found), known=SCHEMA))
        try:
            return typing.cast(Recording, as_kind(cls, data["recording"]))
        except (KeyError, TypeError, ValueError) as why:
            raise RecordingError(_("This Recording is damaged: {error}. Record it again.").format(error=why)) from why
