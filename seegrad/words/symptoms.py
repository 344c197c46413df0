"""What a call did beside what was promised: each symptom in words, and the misconception that it alone tells."""

from __future__ import annotations

from collections.abc import Mapping

from seegrad.words.languages import marked

UNMOVED = marked("`{name}` has its old values: nothing was written into it.")
AROUND = marked("The call changes torch itself, for every line that runs after it.")
CUT = marked("It has no history: `no_grad`, `.detach()`, `.data`, numpy or plain numbers have cut the graph.")
DTYPE = marked("The dtype is another one: inputs come as float32 and as float64.")
SUGGESTS: Mapping[str, str] = {  # what the symptom alone tells; all else is the author's to say
    **dict.fromkeys(("leaf", "unfilled"), "M01"),
    **dict.fromkeys(("kept", "leaf_written"), "M11"),
    **{"unkept": "M02", "overwritten": "M03", "unnoticed": "M05", "added": "M09", "freed": "M10"},
}
NOTES: Mapping[str, str] = {
    "returned": marked("The prompt promises that nothing is returned."),
    "kind": marked("What was returned is of another kind."),
    "none": marked("There is None where a tensor was asked for."),
    "shape": marked("The shape is another one."),
    "dtype": DTYPE,
    "shared": marked("It lies in the memory of `{name}`: a write to one is a write to both."),
    "cut": CUT,
    "history": marked("It has a history, and should be numbers alone."),
    "result_leaf": marked("It should be a leaf, and is the result of an operation."),
    "asks": marked("It should require a gradient, and doesn't."),
    "kept": marked("`{name}` should keep its values, and was written."),
    "touched": marked("`{name}` has its old values again, but was written: its version moved."),
    "unmoved": UNMOVED,
    "storage": marked("`{name}` was given other memory: who held it before sees nothing of the write."),
    "unnoticed": marked("`{name}` was written, and its version didn't move: torch can't notice it."),
    "leaf": marked("The call changed whether `{name}` is a leaf."),
    "requires_grad": marked("The call changed whether `{name}` requires a gradient."),
    "grad": marked("`{name}.grad` should stay what it was."),
    "backed": marked("`{name}.grad` should stay empty: a backward within the call has filled it."),
    "added": marked("The new gradient was added to what stood in `{name}.grad` before."),
    "replaced": marked("What stood in `{name}.grad` before is gone: the new gradient was to be added to it."),
    "left": marked("`{name}.grad` should be empty afterwards: nothing emptied it after the last backward."),
    "unfilled": marked("Nothing was written into `{name}.grad`."),
    "with_history": marked("The numbers in `{name}.grad` are right, its `requires_grad` isn't."),
    "changed": marked("`{name}` should hold what it held."),
    "around": AROUND,
    "neighbour": marked("In backward it writes into the gradient that it is handed. Others are handed the same one."),
    "lost": marked("No gradient reached `{name}`: the graph was cut on the way."),
    "leaked": marked("A gradient reached `{name}`, and none should."),
    "gradient": marked("The values are right; the gradient of `{name}` isn't."),
    "hooked": marked("The call has left a hook on `{name}`: every backward that comes later meets it."),
}
"""Each symptom in words. `suggests` of `promised` is looked up by these keys, by `raised` and `backward`, and by
`wrong`, `written` and `filled`: that values are wrong is seen, and a note says only what the numbers don't."""
AGAIN = marked("The first call was right. The second one got the arguments as the first had left them.")
ALONE = marked("Alone this call was right. After another one it isn't: something is kept between calls.")
LATER = marked("An earlier call, made again, isn't right any more: something is kept between calls.")
EARLIER = marked("These are the numbers for the `{name}` of an earlier call: something is kept between calls.")
SAME = marked("With other arguments the same came: it is kept from an earlier call, or doesn't look at its arguments.")
OTHER = marked("Each call alone is right. Here a second one, with other arguments, came before the backward.")
TWICE = marked("The first backward was right. This is a second one through the same result.")
RENEWED = marked("Before this call the same tensors were passed with other numbers: something is kept by the tensor.")
REWRITTEN = marked("The call was right. A later one, with other numbers, has overwritten what it had returned.")
OF_TWO = frozenset({OTHER, RENEWED, REWRITTEN})  # what is wrong is so for want of other arguments
TAKEN = marked("These are the numbers with `{other}` in the place of `{name}`.")
FIXED = marked("It doesn't change with `{name}`, and should.")
ALIASED = marked("What was returned lies in the memory of `{name}`: a write to one is a write to both.")
SHAPED = marked("With the same numbers in shape {kind} of `{name}` it was right; in shape {now} it isn't.")
ELSEWHERE = marked("It was right where `{name}` was {kind}; here it is {now}, and this alone makes it wrong.")
HELD = marked("It was right where `{name}.grad` was {kind}; here it is {now}, and this alone makes it wrong.")
FORMS: Mapping[str, str] = {
    "leaf": marked("a leaf that requires a gradient"),
    "between": marked("the result of an operation"),
    "scattered": marked("a view of a result"),
    "plain": marked("a tensor that requires no gradient"),
}
LARGE = marked("With every number divided by 10 it is right.")
SIGNED = marked("With the absolute value of every number it is right.")
ZEROED = marked("With 1 in the place of every 0 it is right.")
POSITIVE = marked("With numbers above 0 alone it is right.")
"""What a second look says: the same call with one thing about its arguments changed."""
