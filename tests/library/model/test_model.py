"""The Recording as JSON: there and back, the same bytes, and a plain sentence where it can't be read."""

from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import seegrad
from seegrad.model import recording as model

small = st.integers(0, 9)
names = st.none() | st.text(max_size=4)
places = st.builds(model.Place, st.text(max_size=4), small, st.text(max_size=8))
previews = st.none() | st.lists(st.lists(st.text(max_size=3), max_size=2).map(tuple), max_size=2).map(tuple)
spans = st.tuples(small, small)
tuples = st.lists(small, max_size=3).map(tuple)


def some(strategy: st.SearchStrategy) -> st.SearchStrategy:
    return st.lists(strategy, max_size=2).map(tuple)


tensors = st.builds(
    model.TensorRef, small, names, tuples, st.just("float32"), st.just("cpu"), st.booleans(), st.booleans(), small,
    st.none() | small, spans, small, st.none() | small, st.sampled_from(["self", "view", "detach"]), st.booleans(),
)  # fmt: skip
saved = st.builds(model.SavedTensor, st.text(max_size=4), st.none() | small, st.none() | small, small, spans, tuples)
nodes = st.builds(
    model.Node, small, st.text(max_size=4), st.text(max_size=4), small,
    some(st.builds(model.Edge, small, st.none() | small, small)), some(saved), some(st.none() | small), tuples,
    st.none() | small, st.booleans(),
)  # fmt: skip
frames = st.builds(
    model.Frame, small, st.sampled_from(["start", "forward", "inplace", "backward", "error"]), st.none() | places,
    st.text(max_size=4), tuples, tuples, tuples, tuples, some(st.tuples(small, previews)),
    some(st.tuples(small, st.none() | small)), st.none() | small,
    some(st.builds(model.Gradient, small, previews, tuples, st.booleans())), st.none() | small, st.booleans(), tuples,
)  # fmt: skip
diagnoses = st.builds(
    model.Diagnosis, st.text(max_size=4), st.sampled_from(["error", "wrong", "note"]), st.booleans(),
    st.none() | places, st.none() | places, names, names, st.none() | small, st.none() | small, st.just("self"),
    some(st.tuples(st.text(max_size=3), st.text(max_size=3) | small)),
)  # fmt: skip
errors = st.builds(model.RaisedError, st.text(max_size=4), st.text(max_size=9), st.none() | places, small)
recordings = st.builds(
    model.Recording, some(frames), some(tensors), some(nodes), st.just(()), some(diagnoses), st.none() | errors,
    some(st.tuples(small, st.text(max_size=5))), st.text(max_size=4), st.none() | small,
    some(st.tuples(st.text(max_size=3), st.text(max_size=3))), some(errors),
)  # fmt: skip


@given(recordings)
def test_json_and_back_is_the_same(recording: model.Recording) -> None:
    text = recording.to_json()
    assert model.Recording.from_json(text) == recording
    assert model.Recording.from_json(text).to_json() == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it isn't JSON"),
        ("[1, 2]", "schema None"),
        ('{"schema": 1}', "schema 1"),
        ('{"schema": 2}', "damaged"),
        ('{"schema": 2, "recording": []}', "damaged"),
        ('{"schema": 2, "recording": {"frames": [3]}}', "damaged"),
        ('{"schema": 2, "recording": {"unknown": 3}}', "damaged"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_sentence(text: str, reason: str) -> None:
    with pytest.raises(seegrad.SeegradError, match=reason):
        model.Recording.from_json(text)


def test_no_address_leaves_the_recorder() -> None:
    with seegrad.record() as rec:
        a = torch.ones(2, requires_grad=True)
        a.exp().sum().backward()
    text = rec.to_json()
    for address in (id(a), a.data_ptr(), a._cdata, a.untyped_storage()._cdata):
        assert str(address) not in text


def test_the_json_is_plain_data() -> None:
    with seegrad.record() as rec:
        torch.tensor([float("nan"), float("inf")]).exp()
    json.loads(rec.to_json(), parse_constant=pytest.fail)


def test_a_diagnosis_is_printed_as_what_it_says() -> None:
    found = model.Diagnosis("graph_cut", "note", False, model.Place("a.py", 3, "b = a.data"), None, None, None)
    assert str(found) == found.message()
    assert "a.py:3" in str(found)
