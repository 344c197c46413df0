"""What to do: the second sentence of every Diagnosis, in English. The message ids of the catalogues.

By kind and, after a dot, what makes the case special, as in `words.sentences`. Advice is as special as the cause.
"""

from __future__ import annotations

from seegrad.words.languages import marked as _

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
        "(`{new}`, not `{old}`), or move the write below the backward call."
    ),
    "saved_tensor_modified.self": _(
        "Move the write above {victim}, where {node} saves {label}, or keep {label} and give the new value a new name."
    ),
    "saved_tensor_modified.carried": _(
        "{carried} still leads into an earlier step, which needs the old values: cut it there, `{cut}`, "
        "before line {taken} uses it again; `retain_graph=True` is not needed then."
    ),
    "saved_tensor_modified.within": _(
        "{carried} still leads into an earlier step, which needs the old values: cut it there, `{cut}`, "
        "after the backward call on line {again}; `retain_graph=True` is not needed then."
    ),
    "saved_tensor_modified.unnamed": _(
        "What line {made} made in an earlier step still leads there, and that step needs the old values: "
        "give line {taken} its `.detach()`; `retain_graph=True` is not needed then."
    ),
    "saved_tensor_modified.kept": _(
        "{carried} of an earlier step is still kept and used again on line {taken}: after each step, "
        "empty the list that keeps it, or keep `.detach()` of what is not to be trained any more."
    ),
    "saved_tensor_modified.once": _(
        "{carried} was computed once, with the old values, and every step leads back through it: compute it anew after "
        "each update, or use its `.detach()` if what made it is not to be trained; "
        "`retain_graph=True` is not needed then."
    ),
    "saved_tensor_modified.again": _(
        "That line runs in every round and hit what the round before had saved: make a new tensor in each round, "
        "or let {victim} use `{name}.clone()`, or call backward before the next round."
    ),
    "saved_tensor_modified.whole": _(
        "The line reads {label} and writes to it: make a new tensor (`{new}`, not `{old}`)."
    ),
    "saved_tensor_modified.summed": _(
        "{carried} adds up losses with their graphs, so backward goes through every earlier step: call backward on the "
        "new loss alone, and add its `.detach()` to {carried}."
    ),
    "saved_tensor_modified.trained": _(
        "An update belongs after the last backward call that needs the old value: move it below line {again}, "
        "or run the forward again after the write."
    ),
    "saved_tensor_modified.same": _(
        "The line reads {label} and writes to it: give the new value memory of its own "
        "(`torch.cat` or `torch.stack` of its parts, `torch.where`), not `{old}`."
    ),
    "saved_tensor_modified.part": _(
        "Torch counts the writes to the whole of {label}, not to its parts: "
        "collect the parts in a Python list and join them at the end (`torch.stack`)."
    ),
    "saved_tensor_modified.shape": _(
        "`{op}` changes only the shape, but torch counts it as a write: "
        "`{plain}` without the underscore makes a view instead."
    ),
    "saved_tensor_detached": _(
        "Give the detached tensor a name of its own (`fixed = {name}.detach()`), "
        "or call `.detach_()` after the backward call."
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
    "silent_corruption.attribute": _(
        "Keep it with `ctx.save_for_backward` and torch will raise here instead; "
        "to be right, write to a copy, `{copy}`, or after the backward call."
    ),
    "silent_corruption.hook": _(
        "Let the pack hook return a copy of what it's given, not the tensor itself (`save_on_cpu` copies nothing "
        "that is on the CPU already), or write to a copy, `{copy}`, or after the backward call."
    ),
    "silent_corruption.data": _(
        "Replace `.data` by `.detach()` and torch will raise here instead; to be right, write to a copy, "
        "`{copy}`, or after the backward call."
    ),
    "silent_corruption.data.direct": _(
        "Make a new tensor instead, `{name} = {new}`, so that autograd knows of the change, "
        "or write after the backward call."
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
    "leaf_modified.marked": _(
        "Let forward compute a new tensor instead of writing to its input, "
        "or give the Function a result (`{name} * 1`) instead of the leaf."
    ),
    "view_modified.several": _(
        "Make a new tensor (`{new}`, not `{old}`), or take that part alone by its index, "
        "`x[…]` or `x.narrow(…)`, which may be written."
    ),
    "view_modified.function": _(
        "Make a new tensor (`{new}`, not `{old}`), or let forward return memory of its own, "
        "or call `ctx.mark_dirty` on an input that it means to change and return."
    ),
    "view_modified.base": _(
        "Make the views after the write, or let that line make a new tensor instead of writing to the old one."
    ),
    "view_modified.no_grad": _(
        "Make the view and write to it on the same side: both inside the `no_grad` block if the write is not to be "
        "differentiated, both outside if it is."
    ),
    "view_modified.inference": _(
        "Make the view and write to it on the same side: both inside inference mode, or both outside."
    ),
    "memory_overlaps.within": _(
        "Write before `{maker}` repeats the elements, or let it copy them: `.repeat(…)` for `.expand(…)`, "
        "or make a new tensor (`{new}`, not `{old}`)."
    ),
    "memory_overlaps.between": _(
        "Compute the new values first, as a tensor of their own, and write them afterwards: "
        "`x[1:] = x[1:] + x[:-1]`, not `x[1:] += x[:-1]`."
    ),
    "marked_dirty.not_returned": _(
        "Return {label} itself from forward, or compute a new tensor there and leave out `ctx.mark_dirty`."
    ),
    "marked_dirty.view": _(
        "Compute a new tensor in forward instead of writing to its input, or return the written input alone."
    ),
    "marked_dirty.unmarked": _(
        "Compute a new tensor in forward (`{new}`, not `{old}`), "
        "or call `ctx.mark_dirty` on the input there and return it."
    ),
    "inference_tensor": _(
        "Make it under `torch.no_grad()` instead of `torch.inference_mode()`, "
        "or bring it back with `{name} = {name}.clone()` outside that block."
    ),
    "optimiser_given_non_leaf": _(
        "If {label} itself is to be trained, make it a leaf first, `{name} = {name}.detach().requires_grad_()`; "
        "otherwise give the optimiser the leaf that it was computed from."
    ),
    "optimiser_given_non_leaf.unnamed": _(
        "Give the optimiser the leaf that it was computed from; if the result itself is to be trained, "
        "give it a name and make it a leaf first, with `.detach().requires_grad_()`."
    ),
    "grad_of_non_leaf": _(
        "Keep the leaf under a name of its own and read its `.grad`; if it is the result that should be trained, "
        "make it a leaf, `{name} = {name}.detach().requires_grad_()`, or call `{name}.retain_grad()` before backward."
    ),
    "unused_input.unused": _(
        "Compute {root} from {label} itself (a number from `float()`, `.item()` or numpy has no history), "
        "or pass `allow_unused=True` and get None for it."
    ),
    "unused_input.cut": _("Let {root} use {label} without that cut, or pass `allow_unused=True` and get None for it."),
    "unused_input.fresh": _(
        "Ask for the gradient of {given}, which {root} did use, and take the same part of the result."
    ),
    "unused_input.late": _("Call `{name}.requires_grad_()` before the forward runs."),
    "gradient_overwritten": _(
        "A hook or a custom backward may share its gradient with others: "
        "return a new tensor (`grad * 2`) instead of writing to it (`grad.mul_(2)`)."
    ),
    "graph_freed": _(
        "Run the forward again before each backward, or pass `retain_graph=True` to the first call "
        "if both really belong to one forward."
    ),
    "graph_freed.carried": _(
        "{carried} still leads into the step before: cut it there, `{cut}`, before line {taken} uses it again, "
        "and each backward ends where its own step begins."
    ),
    "graph_freed.within": _(
        "{carried} still leads into the step before: cut it there, `{cut}`, after the backward call on line {again}, "
        "and each backward ends where its own step begins."
    ),
    "graph_freed.unnamed": _(
        "What line {made} made in the step before still leads there: "
        "give line {taken} its `.detach()`, and each backward ends where its own step begins."
    ),
    "graph_freed.kept": _(
        "{carried} of an earlier step is still kept and used again on line {taken}: after each step, "
        "empty the list that keeps it, or keep `.detach()` of what is not to be trained any more."
    ),
    "graph_freed.summed": _(
        "{carried} adds up losses with their graphs, so backward goes through every earlier step: call backward on the "
        "new loss alone, and add its `.detach()` to {carried}."
    ),
    "graph_freed.once": _(
        "{carried} was computed once, on line {made}, and every step leads back through it: compute it anew in each "
        "step, or use `{detached}` if what made it is not to be trained."
    ),
    "graph_freed.shared": _(
        "Both losses lead through {carried}: add them and call backward once; "
        "if only one of them is to train what made it, give the other one `{detached}`."
    ),
    "graph_freed.later": _(
        "Both backward calls lead through {carried}: give the one that is not to train what made it `{detached}`; "
        "if both are, pass `retain_graph=True` to the first."
    ),
    "graph_cut.detach": _("Use {given} itself where the gradient should flow; keep `.detach()` if the cut is meant."),
    "graph_cut.data": _("Use {given} itself where the gradient should flow; if the cut is meant, write `.detach()`."),
    "graph_cut.set_data": _(
        "Use {given} itself where the gradient should flow, not a tensor whose `.data` it was put into."
    ),
    "graph_cut.numbers": _(
        "Collect the tensors themselves and join them (`torch.stack`), "
        "not numbers that `.item()`, `float()` or `.tolist()` took out of them."
    ),
    "graph_cut.function": _(
        "Let one of the tensors that it is given require grad; `torch.utils.checkpoint` is such a Function, "
        "which `use_reentrant=False` turns into an ordinary part of the graph."
    ),
    "graph_cut.no_grad": _("Move this line out of the `no_grad` block if the gradient should flow through it."),
    "graph_cut.op": _(
        "Use an op that has a derivative (a soft version instead of a choice or a comparison), "
        "or call `.detach()` to say that the cut is meant."
    ),
    "graph_cut.integer": _(
        "Compute with the numbers before they are rounded, and keep the integers for counting and indexing alone."
    ),
    "graph_cut.leaf": _(
        "Compute with {given} itself instead of a new tensor made from its numbers; keep it if the cut is meant."
    ),
    "graph_cut.left": _(
        "Stay in torch from the parameters to the loss: use the torch function of the same name, "
        "and numpy only for what needs no gradient."
    ),
    "graph_cut.grad": _("Pass `create_graph=True` to that call, so that its result can be differentiated again."),
    "graph_cut.nothing": _("Set `requires_grad=True` on the tensors you want a gradient for, before the forward runs."),
    "graph_cut.overwritten": _(
        "Compute with {given} before this line, or write only the part that you mean to replace."
    ),
    "version_moved": _(
        "No backward has run yet, so nothing is wrong so far: if it runs, torch will raise, "
        "so move the write below it or above {victim}."
    ),
}
