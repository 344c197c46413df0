"""What keeps its gradient, what each Function saves, in which order backward runs: torch itself is asked first."""

from __future__ import annotations

import itertools
import json
import re
from functools import cache, partial

import pytest
import torch

import seegrad
from seegrad.model.recording import Recording
from seegrad.picture import draw, still, table
from seegrad.quiz import KINDS, ask, judge
from seegrad.words.errors import QuestionError


@cache
def chain() -> tuple[Recording, dict[str, torch.Tensor]]:
    """Two leaves, a retained tensor, one that needs no gradient, a cut."""
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    unused = torch.ones(2, requires_grad=True)
    plain = torch.ones(2)
    with seegrad.record() as rec:
        doubled = a * plain
        kept = doubled.exp()
        kept.retain_grad()
        product = kept * doubled
        aside = unused.detach() + product
        loss = aside.sum()
        loss.backward()
    tensors = {"a": a, "unused": unused, "plain": plain, "doubled": doubled, "kept": kept, "product": product}
    return rec.recording, tensors | {"aside": aside, "loss": loss}


def test_what_keeps_its_gradient_is_torch_s_own() -> None:
    recording, tensors = chain()
    truth = json.loads(ask(recording, "keeps").truth)
    own = [name for name, tensor in tensors.items() if tensor.is_leaf or tensor.retains_grad]
    assert sorted(truth) == sorted(name for name in own if tensors[name].grad is not None) == ["a", "kept"]


@pytest.mark.parametrize(
    ("picked", "belief"),
    [
        (["a", "kept", "product"], "M01"),  # needs a gradient, so it is thought to keep one
        (["a"], "M02"),  # retain_grad is thought to do nothing
        (["kept"], "M01"),
        (["a", "kept", "plain"], ""),
    ],
)
def test_a_wrong_keep_shows_a_misconception(picked: list[str], belief: str) -> None:
    verdict = judge(ask(chain()[0], "keeps"), {"keeps": picked})
    assert (verdict.right, verdict.misconception) == (False, belief)


def test_retain_grad_after_backward_keeps_nothing() -> None:
    a = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        late = a * 2
        late.sum().backward()
        late.retain_grad()
    question = ask(rec.recording, "keeps")
    assert json.loads(question.truth) == ["a"]
    assert judge(question, {"keeps": ["a", "late"]}).misconception == "M02"


def test_a_leaf_that_the_graph_is_cut_off_from_keeps_nothing() -> None:
    a = torch.ones(2, requires_grad=True)
    b = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        cut = b.detach()
        (a * cut).sum().backward()
    question = ask(rec.recording, "keeps")
    assert json.loads(question.truth) == ["a"]
    assert b.grad is None


def test_a_leaf_that_an_error_kept_from_its_gradient_is_not_cut_off() -> None:
    a = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        out = a.exp()
        out.mul_(2)
        with pytest.raises(RuntimeError):
            out.sum().backward()
    question = ask(rec.recording, "keeps")
    assert json.loads(question.truth) == []
    assert judge(question, {"keeps": ["a"]}).misconception == ""


def test_autograd_grad_fills_no_grad() -> None:
    a = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        torch.autograd.grad((a * 2).sum(), a)
    question = ask(rec.recording, "keeps")
    assert a.grad is None
    assert json.loads(question.truth) == []
    assert judge(question, {"keeps": []}).right


def saved_by_torch(node: torch.autograd.graph.Node, around: dict[str, torch.Tensor]) -> set[str]:
    """The tensors around a Function whose bytes it holds."""
    held = [getattr(node, name) for name in dir(node) if name.startswith("_saved_")]
    pointers = {tensor.data_ptr() for tensor in held if isinstance(tensor, torch.Tensor)}
    return {name for name, tensor in around.items() if tensor.data_ptr() in pointers}


def test_what_is_saved_is_torch_s_own() -> None:
    a = torch.rand(3, 3, requires_grad=True)
    w = torch.rand(3, 3, requires_grad=True)
    with seegrad.record() as rec:
        product = a @ w
        bent = product.tanh()
        shifted = bent + a
        scaled = shifted * w
        root = scaled.sqrt()
    made = {"product": product, "bent": bent, "shifted": shifted, "scaled": scaled, "root": root}
    inputs = {"product": (a, w), "bent": (product,), "shifted": (bent, a), "scaled": (shifted, w), "root": (scaled,)}
    everything = {"a": a, "w": w, **made}
    truth = json.loads(ask(rec.recording, "saves").truth)
    assert len(truth) == len(made)
    for (name, result), said in zip(made.items(), truth.values(), strict=True):
        near = {each: t for each, t in everything.items() if t is result or any(t is i for i in inputs[name])}
        assert result.grad_fn is not None
        assert set(said) == saved_by_torch(result.grad_fn, near), name


def test_two_of_a_name_are_numbered() -> None:
    a = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        x = a * 2
        x = x.exp()
        (x * a).sum()
    question = ask(rec.recording, "saves")
    truth = json.loads(question.truth)
    assert {"MulBackward0", "MulBackward0#2"} <= truth.keys()
    assert truth["ExpBackward0"] == ["x#2"]
    assert not judge(question, {"saves": {**truth, "ExpBackward0": ["x"]}}).right
    drawn = re.findall('class="nm"[^>]*>([^<]+)<', draw(rec.recording, question).body)
    assert sorted(set(drawn) - {"(mul)", "(sum)"}) == ["a", "x", "x#2"], "the cards bear the names of the boxes to tick"
    assert "x#2" not in draw(rec.recording).body


def test_what_is_said_of_a_saved_tensor_is_about_the_pick() -> None:
    a, w = (torch.rand(2, requires_grad=True) for _ in "aw")
    with seegrad.record() as rec:
        h = a * w
        s = h.sigmoid()
        (s + h).sum().backward()
    question = ask(rec.recording, "saves")
    truth = json.loads(question.truth)
    missed = judge(question, {"saves": {**truth, "MulBackward0": ["w"]}}).message
    assert "`MulBackward0` needs `a` for the gradient of `w`." in missed
    assert "for the gradient of `a`" not in missed
    unneeded = judge(question, {"saves": {**truth, "SigmoidBackward0": ["h", "s"]}}).message
    assert "`SigmoidBackward0` computes its gradient without `h`." in unneeded
    assert "needs" not in unneeded


def test_one_function_may_be_asked_alone() -> None:
    question = ask(chain()[0], "saves", nodes=("ExpBackward0",))
    assert json.loads(question.truth) == {"ExpBackward0": ["kept"]}
    assert judge(question, {"saves": {"ExpBackward0": ["kept"]}}).right
    with pytest.raises(QuestionError, match="no Function named NoBackward0"):
        ask(chain()[0], "saves", nodes=("NoBackward0",))


def run_by_torch(root: torch.Tensor) -> list[str]:
    """The names of the Functions in the order in which a second backward runs them, by prehooks of our own."""
    ran: list[str] = []

    def note(name: str, _gradients: object) -> None:
        ran.append(name)

    todo, seen = [root.grad_fn], set()
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if "AccumulateGrad" not in node.name():
            node.register_prehook(partial(note, node.name()))
        todo += [following for following, _ in node.next_functions]
    root.backward()
    return ran


def branches() -> tuple[torch.Tensor, torch.Tensor]:
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    return a, ((a.exp() * a.sin()) + a.tanh()).sum()


def test_the_order_is_the_engine_s_own() -> None:
    with seegrad.record() as rec:
        _a, loss = branches()
        loss.backward()
    _, again = branches()
    assert json.loads(ask(rec.recording, "order").truth) == run_by_torch(again)


@pytest.mark.parametrize("kind", ["order", "saves", "next", "gradient"])
def test_every_pill_bears_the_name_by_which_its_function_is_answered(kind: str) -> None:
    a = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        b = a * 2
        (b * a * 3).exp().sum().backward()
    names = ["MulBackward0", "MulBackward0#2", "MulBackward0#3", "ExpBackward0", "SumBackward0"]
    question = ask(rec.recording, kind)
    asked, calm = draw(rec.recording, question), draw(rec.recording)
    assert re.findall('class="fnm"[^>]*>([^<]+)<', asked.body) == names
    assert [item.label for item in asked.items if item.kind == "node"] == names
    assert {label for _, label in question.targets if "Backward" in label} <= set(names)
    assert "#" not in "".join(re.findall('class="fnm"[^>]*>([^<]+)<', calm.body)), "nothing there says a number"


def test_that_any_write_raises_is_heard_only_from_who_ticks_what_was_overwritten_and_nobody_saves() -> None:
    a = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        b = a * 2
        c = b + 1
        b.mul_(3)
        d = c.exp()
        (d * b).sum().backward()
    question = ask(rec.recording, "saves")
    truth = json.loads(question.truth)
    beliefs = {choice.key: choice.misconception for choice in question.choices}
    assert {key for key, belief in beliefs.items() if belief} == {"+MulBackward0 b", "+AddBackward0 b"}
    assert set(beliefs.values()) == {"", "M03"}
    missed = {node: [] for node in truth}
    assert judge(question, {"saves": missed}).misconception == ""
    assert judge(question, {"saves": truth | {"AddBackward0": ["b"]}}).misconception == "M03"


def test_every_wrong_order_is_told_why() -> None:
    with seegrad.record() as rec:
        _, loss = branches()
        loss.backward()
    question = ask(rec.recording, "order")
    truth = json.loads(question.truth)
    said = set()
    for order in itertools.islice(itertools.permutations(truth), 720):
        verdict = judge(question, {"order": list(order)})
        assert verdict.right == (list(order) == truth)
        extra = verdict.message.removeprefix(question.wrong)
        assert verdict.right or extra
        said.add(extra)
    assert any("has to wait" in each for each in said)
    assert any("the newest runs first" in each for each in said)
    assert "order of the forward pass" in judge(question, {"order": truth[::-1]}).message


def test_a_function_that_leads_nowhere_isn_t_run() -> None:
    a = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        a.exp()
        a.sin().sum().backward()
    question = ask(rec.recording, "order")
    assert json.loads(question.truth) == ["SumBackward0", "SinBackward0"]
    verdict = judge(question, {"order": ["SumBackward0", "ExpBackward0"]})
    assert "No gradient comes to `ExpBackward0`" in verdict.message
    assert verdict.misconception == "M01"
    forgotten = judge(question, {"order": ["SumBackward0"]})
    assert "leaves out a Function" in forgotten.message
    assert forgotten.misconception == ""


def test_a_function_before_a_detach_isn_t_run() -> None:
    a = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        held = a.exp().detach()
        (a.sin() * held).sum().backward()
    question = ask(rec.recording, "order")
    verdict = judge(question, {"order": [*json.loads(question.truth), "ExpBackward0"]})
    assert "only through `.detach()` or `.data`" in verdict.message
    assert verdict.misconception == ""


def test_a_write_left_out_of_the_order_is_taken_for_no_function() -> None:
    a = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        b = a * 2
        b += 1
        b.sum().backward()
    question = ask(rec.recording, "order")
    verdict = judge(question, {"order": ["SumBackward0", "MulBackward0"]})
    assert "writes in place, and backward runs its `AddBackward0` too" in verdict.message
    assert verdict.misconception == "M11"


def test_an_order_may_be_asked_of_a_few() -> None:
    with seegrad.record() as rec:
        _, loss = branches()
        loss.backward()
    whole = json.loads(ask(rec.recording, "order").truth)
    few = ("ExpBackward0", "SumBackward0")
    question = ask(rec.recording, "order", nodes=few)
    assert json.loads(question.truth) == [name for name in whole if name in few]
    assert "`ExpBackward0` has to wait for `SumBackward0`" in " ".join(choice.message for choice in question.choices)
    assert "order of the forward pass" in judge(question, {"order": list(few)}).message


@pytest.mark.parametrize("kind", ["keeps", "order"])
def test_without_backward_there_is_nothing_to_ask(kind: str) -> None:
    with seegrad.record() as rec:
        torch.ones(2, requires_grad=True) * 2
    with pytest.raises(QuestionError, match="No backward pass"):
        ask(rec.recording, kind)


def test_a_large_graph_is_asked_about_in_parts() -> None:
    x = torch.ones(2, requires_grad=True)
    with seegrad.record() as rec:
        for _ in range(30):
            x = x.exp()
        x.sum().backward()
    for kind in ("saves", "order"):
        with pytest.raises(QuestionError, match="too many") as raised:
            ask(rec.recording, kind)
        assert "`--nodes ExpBackward0,SumBackward0`" in str(raised.value)
        assert '`nodes=["ExpBackward0", "SumBackward0"]`' in str(raised.value)
    assert ask(rec.recording, "saves", nodes=("ExpBackward0#7",)).truth == '{"ExpBackward0#7": ["x#8"]}'


@pytest.mark.parametrize("value", [None, 3, "x", ["a", 1], {"a": "1"}, {"MulBackward0": None}])
@pytest.mark.parametrize("kind", ["keeps", "saves", "order"])
def test_a_value_of_the_wrong_type_is_a_wrong_answer(kind: str, value: object) -> None:
    assert not judge(ask(chain()[0], kind), {kind: value}).right


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"culprit"}))
def test_an_answer_is_the_same_in_every_language(kind: str) -> None:
    from seegrad.words.languages import speaking

    with speaking("zh_CN"):
        chinese = ask(chain()[0], kind)
    english = ask(chain()[0], kind)
    assert (chinese.truth, chinese.id, chinese.targets) == (english.truth, english.id, english.targets)
    assert [choice.key for choice in chinese.choices] == [choice.key for choice in english.choices]
    assert chinese.prompt != english.prompt


@pytest.mark.parametrize(("kind", "hidden"), [("keeps", "will be kept"), ("saves", "and saves")])
def test_an_open_question_isn_t_answered_by_the_words_beside_it(kind: str, hidden: str) -> None:
    question = ask(chain()[0], kind)
    assert hidden in table(draw(chain()[0]))
    assert hidden not in table(draw(chain()[0], question), question.until_step)
    assert f'data-veil="{kind}"' in still(draw(chain()[0], question), question.until_step, "", open_question=True)
