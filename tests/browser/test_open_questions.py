"""While a question is open nothing on screen gives its answer away: no visible text, outline, key of the legend, track.

What is shown may not depend on what comes later: it is compared with the picture of a Recording that ends where the
question is asked. Where the answer lies in what is shown already, the words that would tell it are looked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from nbjudge_tests.session import one_in
from seegrad.display.page import page as page_text
from seegrad.model.recording import Recording
from seegrad.model.scene import Question
from seegrad.quiz import ask
from seegrad.words.errors import QuestionError
from tests.browser.test_pictures import visit
from tools.pictures.portraits import PORTRAITS, record

pytestmark = pytest.mark.browser

SMALL = ("l1_l4", "data", "detach", "residual", "views", "outputs", "second_lap", "hooks", "islands")
LATER = ("outcome", "order", "keeps", "culprit")
"""Kinds whose answer comes after the step at which they are asked."""

VISIBLE = """() => {
  const root = document.querySelector(".sg"), found = [];
  const shown = (e) => {
    if (getComputedStyle(e).visibility !== "visible") return false;
    for (let here = e; here !== root; here = here.parentElement) {
      const { display, opacity } = getComputedStyle(here);
      if (display === "none" || opacity === "0") return false;
    }
    return true;
  };
  for (const e of root.querySelectorAll("*")) {
    const own = [...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data).join("").trim();
    const part = e.closest("[data-st]");
    const heard = part?.getAttribute("aria-hidden") !== "true";
    if (e.tagName === "title" ? !heard || !shown(e.parentElement) : !shown(e)) continue;
    const texts = [own, e.getAttribute("aria-label"), e.getAttribute("aria-valuetext"), e.title];
    found.push(...texts.filter((text) => typeof text === "string" && text));
    const { stroke, fill, strokeDasharray } = getComputedStyle(e);
    if (e.matches(".sg-cv :is(rect, path, circle)")) found.push([e.tagName, stroke, fill, strokeDasharray].join(" "));
    if (e.matches(".seg, .sg-map *")) found.push(e.getAttribute("style") ?? e.getAttribute("class") ?? "");
  }
  return found.sort();
}"""


@pytest.fixture(scope="module")
def recordings() -> dict[str, Recording]:
    return {each.name: record(each) for each in PORTRAITS if each.name in SMALL}


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1240, "height": 1000}, reduced_motion="reduce")
    yield page
    page.close()


def ended_at(recording: Recording, step: int) -> Recording:
    """The Recording as far as this step: what the program did later is in nobody's hands."""
    return replace(
        recording,
        frames=recording.frames[: step + 1],
        diagnoses=(),
        error=None,
        errors=(),
        writes=tuple(each for each in recording.writes if each.frame <= step),
        hooks=tuple(replace(each, calls=()) for each in recording.hooks if each.frame <= step),
    )


def asked(recording: Recording, kind: str) -> Question:
    try:
        return ask(recording, kind)
    except QuestionError as error:
        pytest.skip(str(error))


def seen(tab: Page, folder: Path, recording: Recording, question: Question) -> list[list[str]]:
    """What is visible, and what is read aloud, at each step that may be seen."""
    assert not visit(tab, folder, page_text(recording, question=question))
    tab.locator(".sg-tl input").focus()
    tab.keyboard.press("Home")
    steps = []
    for _ in range(question.until_step + 1):
        steps.append([re.sub('"#s[0-9a-f]{7}-', '"#', text) for text in tab.evaluate(VISIBLE)])
        tab.keyboard.press("ArrowRight")
    assert tab.locator(".sg-ct").inner_text() == f"{question.until_step + 1} / ?", "no key leads further"
    return steps


@pytest.mark.parametrize(("kind", "name"), one_in(5, product(LATER, SMALL)))
def test_what_comes_later_changes_nothing_on_screen(
    kind: str, name: str, recordings: dict[str, Recording], tab: Page, tmp_path: Path
) -> None:
    recording = recordings[name]
    question = asked(recording, kind)
    whole = seen(tab, tmp_path, recording, question)
    ended = seen(tab, tmp_path, ended_at(recording, question.until_step), question)
    for step, (now, then) in enumerate(zip(whole, ended, strict=True)):
        more, less = set(now) - set(then), set(then) - set(now)
        assert not more, f"step {step}: {more}, instead of {less}"


TELLS = {
    "leaves": re.compile(r"\bleaf|grad_fn|requires|\.grad\b|AccumulateGrad"),
    "keeps": re.compile(r"\.grad\b|retain|AccumulateGrad"),
    "saves": re.compile(r"\bsave[sd]?\b|_saved"),
    "versions": re.compile(r"^✎?v[1-9]|version [1-9]|in place|in-place"),
}


@pytest.mark.parametrize(("kind", "name"), one_in(5, product(sorted(TELLS), SMALL)))
def test_no_word_tells_what_is_asked(
    kind: str, name: str, recordings: dict[str, Recording], tab: Page, tmp_path: Path
) -> None:
    question = asked(recordings[name], kind)
    own = {question.prompt.replace("`", ""), *question.prompt.split("`")}  # what is asked has to be said
    code = {text.strip() for _, text in recordings[name].code}
    for step in seen(tab, tmp_path, recordings[name], question):
        told = {text for text in step if TELLS[kind].search(text)} - own - code
        assert not {text for text in told if not text.startswith(("rect ", "path ", "circle "))}
