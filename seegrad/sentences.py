"""The sentences of all Diagnoses in English: the message ids of the catalogues.

`WHAT` happened and what to `DO`, by kind and, after a dot, what makes the case special; `THROUGH` names the route of a
write, `WHY` the reason of a cut. `seegrad.messages` chooses among them and fills the braces.
"""

from __future__ import annotations

from .languages import marked as _

# Words inside `Diagnosis.arguments`: kept in English, read back by these very templates when they are said.
A_TENSOR = _("a tensor")
A_RESULT = _("the result of `{op}` on line {line}")
OF_SHAPE = _("a tensor of shape {shape}")
AND = _(" and ")

WHAT: dict[str, str] = {
    "saved_tensor_modified": _(
        "{Culprit} overwrote {label}{through}: {label} is now at version {now}, "
        "but {node} from {victim} saved version {saved}{need}."
    ),
    "saved_tensor_modified.unknown": _(
        "{label} was overwritten on a line that was not recorded: it is now at version {now}, "
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
        "{Culprit} overwrote {label}{through}: {label} is now at version {now}, "
        "but {node} from {victim} saved version {saved}{need}."
    ),
}

THROUGH: dict[str, str] = {
    "detach": _(" through {alias}, which shares its memory and its version"),
    "data": _(" through {alias}, which shares its memory but not its version"),
    "view": _(" through {alias}, a view of the same memory"),
    "storage": _(" through {alias}, which was put on the same storage"),
    "outside": _(" behind torch's back"),
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
        "Write to a copy, `{copy}`, or move the write below the backward call: "
        "{node} computes its gradient from its own result."
    ),
    "saved_tensor_modified.detach": _(
        "Write to a copy, `{copy}`, or move the write above {victim}, where {node} saves {label}, "
        "or below the backward call."
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
    "saved_tensor_modified.trained": _(
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
        "`{copy}`, or after the backward call."
    ),
    "silent_corruption.data.trained": _(
        "An update belongs after the backward call that uses the old value; "
        "write it under `with torch.no_grad():` instead of through `.data`, and torch will check the order."
    ),
    "silent_corruption.inside": _(
        "`{op}` does not move the version of what it writes: let the backward call come before it, "
        "or run the forward again after it."
    ),
    "silent_corruption.storage": _(
        "Give {alias} a storage of its own (`.clone()` instead of `set_`), or write after the backward call."
    ),
    "silent_corruption.outside": _(
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
    "leaf_modified.trained": _(
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
