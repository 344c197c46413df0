"""What happened: the first sentence of every Diagnosis, in English. The message ids of the catalogues.

`WHAT` happened, by kind and, after a dot, what makes the case special; `THROUGH` names the route of a write, `WHY` the
reason of a cut. `words.phrases` chooses among them and fills the braces; `words.advice` says what to do.
"""

from __future__ import annotations

from seegrad.words.languages import marked as _

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
    "saved_tensor_modified.trained": _(
        "{Culprit} updated {label}{through}: {label} is now at version {now}, "
        "but {node} from {victim} saved version {saved}{need}."
    ),
    "saved_tensor_detached": _(
        "{Culprit} took the history of {label} away in place, but {node} from {victim} had saved it with that history."
    ),
    "saved_tensor_detached.unknown": _(
        "{label} lost its history in place, but {node} from {victim} had saved it with that history."
    ),
    "silent_corruption": _(
        "{Culprit} overwrote {label}{through}, after {node} from {victim} had saved it{need}{others}; "
        "the version stayed {saved}, so torch raised nothing and the gradient is wrong."
    ),
    "silent_corruption.attribute": _(
        "{Culprit} overwrote {label}{through}, after {node} from {victim} had kept it as `{attr}`{need}{others}; "
        "torch checks only what `ctx.save_for_backward` saves, so it raised nothing and the gradient is wrong."
    ),
    "silent_corruption.hook": _(
        "{Culprit} overwrote {label}{through}, after {node} from {victim} had saved it{need}{others}; "
        "a saved-tensor hook keeps it, which switches torch's check off: nothing was raised, the gradient is wrong."
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
    "leaf_modified.marked": _(
        "{Culprit} writes in place to {label} inside a custom Function: {label} is a leaf that requires grad, "
        "and no mark tells autograd where the value that the gradient belongs to has gone."
    ),
    "view_modified.several": _(
        "{Culprit} writes in place to {label}, one of the views that `{maker}` on {victim} returned together: "
        "autograd cannot follow a write to one of them, so torch refuses."
    ),
    "view_modified.function": _(
        "{Culprit} writes in place to {label}, which a custom Function on {victim} returned as a view of its input: "
        "the write would pass by the Function's own backward, so torch refuses."
    ),
    "view_modified.base": _(
        "{Culprit} overwrote memory that {label} is a view of: `{maker}` on line {made} returned views "
        "that autograd cannot bring up to date, so {victim} may not use it any more."
    ),
    "view_modified.no_grad": _(
        "{Culprit} writes in place to {label}, a view that was made on {victim} with gradients switched off: "
        "the write would be recorded although the view is not, so torch refuses."
    ),
    "view_modified.inference": _(
        "{Culprit} writes in place to {label}, a view that was made on {victim} in inference mode: "
        "the write would be recorded although the view is not, so torch refuses."
    ),
    "memory_overlaps.within": _(
        "{Culprit} writes in place to {label}, but several of its elements are one place in memory: "
        "`{maker}` on {victim} repeats elements without copying them, so torch refuses."
    ),
    "memory_overlaps.between": _(
        "{Culprit} reads and writes the same memory at shifted places: "
        "the result would depend on the order in which the elements are visited, so torch refuses."
    ),
    "marked_dirty.not_returned": _(
        "{Culprit} writes in place to {label}, which `ctx.mark_dirty` announces, "
        "but the Function called on {victim} does not return it: what came after would use a value without a history."
    ),
    "marked_dirty.view": _(
        "{Culprit} writes in place to {label}, a view, and the Function called on {victim} returns more than that: "
        "autograd cannot rebase a view's history onto a Function with several outputs."
    ),
    "marked_dirty.unmarked": _(
        "{Culprit} writes in place to {label} inside the custom Function `{function}`, which does not announce it: "
        "for {node} on {victim}, which uses {label} afterwards, the gradient leaves out `{op}`, and torch says nothing."
    ),
    "inference_tensor.saved": _(
        "{label} was made in inference mode by {culprit}, so it has no version, "
        "but `{op}` on {victim} has to save it for backward."
    ),
    "inference_tensor.written": _(
        "{label} was made in inference mode by {culprit}, so it has no version, "
        "and {victim} writes to it in place where versions count."
    ),
    "optimiser_given_non_leaf": _(
        "{label} is the result of `{op}` on {culprit}, not a leaf: gradients are kept in leaves alone, "
        "so an optimiser could never update it."
    ),
    "optimiser_given_non_leaf.unnamed": _(
        "{Culprit} gives the optimiser the result of `{op}`, not a leaf: gradients are kept in leaves alone, "
        "so it could never update it."
    ),
    "optimiser_given_non_leaf.unknown": _(
        "The optimiser on {victim} was given the result of an op, not a leaf: gradients are kept in leaves alone, "
        "so it could never update it."
    ),
    "grad_of_non_leaf": _(
        "`{name}.grad` on {victim} is None, because `{name}` is the result of {culprit}, not a leaf: "
        "backward keeps gradients in leaves alone."
    ),
    "unused_input.unused": _(
        "The gradient of {label} was asked for on {victim}, but nothing that led to {root} used {label} as a tensor."
    ),
    "unused_input.cut": _(
        "The gradient of {label} was asked for on {victim}, but {culprit} cut the graph between {label} and {root}: "
        "{why}."
    ),
    "unused_input.fresh": _(
        "The gradient of {label} was asked for on {victim}, but {culprit} has only just made that tensor from {given}: "
        "{root} was computed without it."
    ),
    "unused_input.late": _(
        "The gradient of {label} was asked for on {victim}, but {label} did not require grad when {root} was computed."
    ),
    "gradient_overwritten": _(
        "{Culprit} overwrote a gradient while backward ran, and {node} from {victim} was given the same tensor: "
        "torch raised nothing and the gradient of {label} is wrong."
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
    "graph_cut.error.left": _(
        "{label} has no graph behind it: {given} left torch on {culprit}, and what comes back has no history."
    ),
    "graph_cut.error.nothing": _(
        "{label} has no graph behind it: none of the recorded tensors that led to it requires grad."
    ),
    "graph_cut.note": _("{label}{leaves} led to the loss but got no gradient, because {culprit} cut the graph: {why}."),
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
    "set_data": _("assigning to `.data` takes the numbers of {given} without their history"),
    "no_grad": _("`{op}` ran with gradients switched off"),
    "op": _("`{op}` has no derivative for {given}, so its result does not require grad"),
    "integer": _("`{op}` turns {given} into integers, which carry no gradient"),
    "leaf": _("a new leaf was made there of the numbers in {given}, and it knows nothing of their history"),
    "numbers": _("a new tensor was made there of plain numbers, which have no history"),
    "function": _(
        "gradients are off inside a custom Function's forward, and none of the tensors that it was given requires grad"
    ),
    "left": _("{given} left torch there, and what comes back has no history"),
    "grad": _("`autograd.grad` returns a gradient without a history unless it is asked to keep one"),
}
