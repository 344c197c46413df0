"""Two languages: one rule that chooses, a catalogue that is whole, and Chinese sentences without English in them."""

from __future__ import annotations

import ast
import contextlib
import io
import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from babel.messages.catalog import Message
from babel.messages.mofile import read_mo
from IPython.core.error import UsageError

import seegrad
from nbjudge_tests.session import some
from seegrad.check import CheckFailed, expect
from seegrad.diagnose import FINDERS
from seegrad.diagnose.evidence import A_RESULT, A_TENSOR, OF_SHAPE
from seegrad.diagnose.finding import DiagnosisKind
from seegrad.display.magic import MagicLine
from seegrad.display.page import page
from seegrad.display.widget import show
from seegrad.picture import draw, still, table
from seegrad.quiz import KINDS, ask
from seegrad.words import beliefs
from seegrad.words.languages import LANGUAGES, closed, counted, language, speaking, together, translate
from seegrad.words.phrases import Phrase, joined, phrase, told
from tests.data.programs import programs
from tests.library.recorded import seen, standing
from tools.words import catalogue, entries

ROOT = Path(__file__).parents[3]
CODE = re.compile(r"`[^`]*`")
LATIN = re.compile(r"[A-Za-z_][A-Za-z_0-9.]*")
ALLOWED = {  # torch's own words, which Chinese sentences keep; see locale/TERMS.md
    "torch", "autograd", "numpy", "backward", "retain_graph", "no_grad", "detach", "grad", ".grad", "Function", "None",
    "AccumulateGrad", "seegrad", "forward", "Python", "pack", "CPU", "saved", "float()", ".item()",
    "inference", "tensor", "traceback", "autograd.grad", "NaN", "hook", "B", "KiB", "MiB", "GiB", "softmax", "dropout",
    "MAML",
}  # fmt: skip
ELSE_CALLED = {  # what else the terms could be called, and aren't; see locale/TERMS.md
    "拷贝": "", "图库": "", "悄无声息": "", "累积": "梯度累加（也叫梯度累积）", "原地截断": "",
}  # fmt: skip
"""A word → the words around it with which it may stand, since a reader searches for it."""


@pytest.mark.parametrize(
    ("given", "variable", "session", "expected"),
    [
        (None, "", "", "en"),
        (None, "zh_CN", "/home/me/notebooks/en/05.ipynb", "zh_CN"),
        (None, "", "/home/me/notebooks/zh_CN/05.ipynb", "zh_CN"),
        (None, "", "/home/en/notebooks/zh_CN/05.ipynb", "zh_CN"),
        (None, "", "/home/me/zh_CN/notebooks/en/05.ipynb", "en"),
        (None, "", "/home/me/notebooks/fr/05.ipynb", "en"),
        (None, "", "/home/me/zh.ipynb", "en"),
        (None, "klingon", "", "en"),
        (None, "zh_CN.UTF-8", "", "zh_CN"),
        (None, "en_GB.UTF-8", "/home/me/zh_CN/05.ipynb", "en"),
        ("zh", "en", "", "zh_CN"),
        ("zh-CN", "", "", "zh_CN"),
        ("zh-Hans-CN", "", "", "zh_CN"),
        ("ZH_cn", "", "", "zh_CN"),
        ("en", "zh_CN", "/home/me/zh_CN/05.ipynb", "en"),
        ("fr", "", "/home/me/zh_CN/05.ipynb", "zh_CN"),
        ("zhuang", "", "", "en"),
        ("", "", "", "en"),
    ],
)
def test_one_rule_chooses(monkeypatch, given: str | None, variable: str, session: str, expected: str) -> None:
    monkeypatch.setenv("SEEGRAD_LANG", variable)
    monkeypatch.setenv("JPY_SESSION_NAME", session)
    assert language(given) == expected


def test_without_a_notebook_s_path_the_working_folder_says(monkeypatch, tmp_path) -> None:
    """As when nbgrader validates, or in VS Code."""
    monkeypatch.delenv("SEEGRAD_LANG", raising=False)
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    folder = tmp_path / "release" / "zh_CN" / "05_data_versus_detach"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    assert language() == "zh_CN"
    folder.rmdir()
    assert language() == "en", "a folder that is gone names nothing"
    monkeypatch.chdir(tmp_path)
    assert language() == "en"


@pytest.fixture
def recording() -> seegrad.Recording:
    return seen("s000_in22_data").recording


def test_every_place_follows_the_rule(monkeypatch, recording) -> None:
    """A notebook in Chinese needs no argument; an argument goes before it."""
    monkeypatch.delenv("SEEGRAD_LANG", raising=False)
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/me/notebooks/zh_CN/05.ipynb")
    found = recording.diagnoses[0]
    assert "改写了" in found.message()
    assert "overwrote" in found.message("en")
    assert show(recording).lang == "zh_CN"
    assert show(recording, lang="en").lang == "en"
    assert '<html lang="zh-CN">' in page(recording)
    assert '<html lang="en">' in page(recording, lang="en")
    assert draw(recording).lang == "zh_CN"
    with pytest.raises(CheckFailed, match="得到"):
        expect("1 + 1", 3).equals(2)


def test_the_note_on_an_error_follows_the_rule(monkeypatch) -> None:
    monkeypatch.setenv("SEEGRAD_LANG", "zh-CN")
    with pytest.raises(RuntimeError) as raised, seegrad.record():
        programs()["s000_in23_detach"].run()
    assert re.fullmatch(r"seegrad: seeds\.py 第 \d+ 行（`c.zero_\(\)`）通过 `c`.*", raised.value.__notes__[0])


def test_one_language_leaves_nothing_behind(recording) -> None:
    before = recording.diagnoses[0].message("en")
    assert recording.diagnoses[0].message("zh") != before
    assert recording.diagnoses[0].message("en") == before
    with contextlib.suppress(ZeroDivisionError), speaking("zh"):
        raise ZeroDivisionError
    assert together("a.", "b.") == "a. b."


def test_the_catalogue_is_whole() -> None:
    """Up to date, nothing missing, nothing fuzzy, the same gaps and the same code on both sides."""
    assert catalogue.check() == []


@pytest.mark.parametrize(
    ("original", "translation", "complaint"),
    [
        ("{name} is at {version}", "{name} 在", "gaps"),
        ("{name} is at {version}", "{name} 在 {versoin}", "gaps"),
        ("use `.detach()`", "用 `.data`", "code"),
        ("use `.detach()`", "", "isn't translated"),
    ],
)
def test_a_wrong_translation_is_found(original: str, translation: str, complaint: str) -> None:
    catalog = entries.Catalog(locale="zh_CN")
    catalog.add(original, translation)
    assert [complaint in problem for problem in entries.problems(catalog)] == [True]


def test_a_fuzzy_translation_is_found_and_never_said() -> None:
    catalog = entries.Catalog(locale="zh_CN")
    catalog.add("the old words", "旧", flags=["fuzzy"])
    assert ["fuzzy" in problem for problem in entries.problems(catalog)] == [True]
    assert not list(messages(read_mo(io.BytesIO(entries.mo_bytes(catalog)))))


def messages(catalog: entries.Catalog) -> Iterator[Message]:
    return (message for message in catalog if message.id)


def test_a_reworded_template_becomes_fuzzy(tmp_path) -> None:
    source = tmp_path / "seegrad" / "words.py"
    source.parent.mkdir()
    source.write_text('text = _("The version stays as it is, so torch raises nothing.")\n')
    catalogue.build(tmp_path)
    path = catalogue.po_file("zh_CN", tmp_path)
    catalog = entries.read(path, "zh_CN")
    next(messages(catalog)).string = "版本不变，所以 torch 不报错。"
    path.write_bytes(entries.po_bytes(catalog))
    catalogue.build(tmp_path)
    assert catalogue.check(tmp_path) == []
    source.write_text('text = _("The version stays as it was, so torch raises nothing.")\n')
    complaints = catalogue.check(tmp_path)
    assert any("isn't what the sources make" in complaint for complaint in complaints)
    assert any("is fuzzy" in complaint for complaint in complaints)


@pytest.mark.parametrize("path", sorted((ROOT / "seegrad").rglob("*.py")), ids=lambda path: path.stem)
def test_sentences_are_translated_when_they_are_said(path: Path) -> None:
    """`_` at module level speaks the language of the first import; into or out of an f-string no extractor looks."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    marker = any(
        alias.name == "marked" and alias.asname == "_"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    )
    inside = {
        id(each)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for each in ast.walk(node)
    }
    hidden = {id(each) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for each in ast.walk(node)}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("_", "marked", "counted")
        ):
            assert not isinstance(node.args[0], ast.JoinedStr), f"line {node.lineno}: a template, not an f-string"
            assert id(node) not in hidden, f"line {node.lineno}: say it before the f-string"
            assert marker or node.func.id == "marked" or id(node) in inside, f"line {node.lineno}: use `marked` here"


def of_diagnoses() -> list[str]:
    """Every template of the finders."""
    said = [each for each in messages(catalogue.extracted()) if each.locations[0][0].startswith("seegrad/diagnose/")]
    return [each.id if isinstance(each.id, str) else each.id[0] for each in said]


def test_every_sentence_is_said_in_chinese() -> None:
    texts = [*of_diagnoses(), *beliefs.MISCONCEPTIONS.values()]
    said = {text: translate(text, "zh_CN") for text in texts}
    assert len(said) > 500
    assert [text for text in said if said[text] == text] == []
    assert [each for text, each in said.items() if each.endswith("。") != text.endswith(".")] == []


KINDS_FOUND = {
    value.name: value
    for find in FINDERS
    for value in vars(sys.modules[find.__module__]).values()
    if isinstance(value, DiagnosisKind)
}


@pytest.mark.parametrize("kind", KINDS_FOUND.values(), ids=lambda kind: kind.name)
def test_every_kind_of_diagnosis_has_a_name(kind: DiagnosisKind) -> None:
    assert translate(kind.title, "zh_CN") != kind.title


@pytest.mark.parametrize("name", sorted(standing()))
def test_every_message_is_filled(name: str) -> None:
    for diagnosis, lang in itertools.product(seen(name).recording.diagnoses, LANGUAGES):
        said = diagnosis.message(lang)
        assert "{" not in CODE.sub("", said)
        assert said == said.strip()
        if lang == "zh_CN":
            assert english_words(CODE.sub("", said), diagnosis) == set(), said
            assert not re.search(r" [，。：；（）]|[，。：；（）] ", CODE.sub("x", said)), said


def english_words(said: str, diagnosis: seegrad.Diagnosis) -> set[str]:
    """Words in Latin letters that are neither torch's nor the user's."""
    places = [place for place in (diagnosis.culprit, diagnosis.victim) if place is not None]
    files = {word for place in places for word in LATIN.findall(Path(place.file).name)}
    return set(LATIN.findall(said)) - ALLOWED - files - {diagnosis.node, diagnosis.tensor}


@pytest.mark.slow
@pytest.mark.parametrize("name", some(25, sorted(standing())))
def test_every_step_is_told_in_chinese(name: str) -> None:
    """Names, ops and Nodes of the program aside, the sentences and the captions hold no English."""
    recording = seen(name).recording
    own = words_of(recording)
    for frame in draw(recording, lang="zh_CN").frames:
        assert set(LATIN.findall(CODE.sub("", frame.text))) <= own, frame.text
        assert re.search("[一-鿿]", frame.text), frame.text


def test_torch_s_own_words_stay_torch_s() -> None:
    recording = seen("s000_in23_detach").recording
    said = [[frame.message for frame in draw(recording, lang=lang).frames] for lang in LANGUAGES]
    assert said[0] == said[1]
    assert any("modified by an inplace operation" in text for text in said[0])


def test_a_part_s_name_ends_at_the_same_comma() -> None:
    """While a question is open, the player cuts a part's label there: what follows would be the answer."""
    catalog = entries.read(catalogue.po_file("zh_CN"), "zh_CN")
    labels = [message for message in messages(catalog) if str(message.id).startswith("{name}, ")]
    assert len(labels) > 5
    assert [label.string for label in labels if not label.string.startswith("{name}, ")] == []


def words_of(recording: seegrad.Recording) -> set[str]:
    """What stays as it is: names, ops, classes of the program; torch's words."""
    found = {ref.name or "" for ref in recording.tensors} | {node.name for node in recording.nodes}
    found |= {frame.op for frame in recording.frames} | {error.kind for error in recording.errors}
    found |= {frame.place.code for frame in recording.frames if frame.place is not None}
    ends = {name.rpartition(".")[2] for name in found}  # of a path a card says the end alone
    text = " ".join(found) + " ".join(f" {name}.grad {name}.data {name}.detach" for name in found | ends)
    words = set(LATIN.findall(text)) | {"v", *(f"v{number}" for number in range(1_000))}
    beginnings = {word[: dot.start()] for word in words for dot in re.finditer(r"\.", word)}  # p.grad of p.grad.detach
    return words | beginnings | ALLOWED


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_questions_are_asked_in_chinese(recording, kind: str) -> None:
    with speaking("en"):
        english = ask(recording, kind)
    with speaking("zh"):
        question = ask(recording, kind)
    assert (question.id, question.truth, question.evidence) == (english.id, english.truth, english.evidence)
    assert [choice.key for choice in question.choices] == [choice.key for choice in english.choices]
    own = words_of(recording) | {"grad_fn"}
    for text in (question.prompt, question.right, question.wrong):
        assert set(LATIN.findall(CODE.sub("", text))) <= own, text


def test_a_check_speaks_chinese(monkeypatch) -> None:
    monkeypatch.setenv("SEEGRAD_LANG", "zh")
    with pytest.raises(CheckFailed) as failed:
        expect("version(c)", 1).equals(0, suggests="M05")
    assert str(failed.value).splitlines() == [
        "题目       version(c)",
        "得到       1",
        "应为       0",
        "提示       M05 .data 不等于 .detach()，两者也都不复制：它们都共享内存，只有 detach 还共享版本计数器。",
    ]


def test_the_table_of_steps_and_the_still_picture(recording) -> None:
    scene = draw(recording, lang="zh")
    told = table(scene)
    assert " 1  开始      第一行之前" in told
    assert "静默" not in told
    assert "没有报错，梯度却是错的" in told.replace("\n", "").replace(" ", "")
    picture = still(scene, -1, "")
    assert "<title>自动求导图，第" in picture
    assert "叶子张量" in picture


@pytest.mark.slow
def test_the_command_speaks_chinese(tmp_path) -> None:
    script = tmp_path / "script.py"
    lines = ("import torch", "a = torch.ones(2, requires_grad=True)", "out = a.sigmoid()", "out.data.zero_()")
    script.write_text("\n".join([*lines, "out.sum().backward()"]))
    done = subprocess.run(
        [sys.executable, "-m", "seegrad", str(script)],
        cwd=tmp_path,
        env={**os.environ, "SEEGRAD_LANG": "zh_CN", "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=True,
    )
    assert "── seegrad：1 次反向传播，1 处问题 ──" in done.stdout
    assert "script.py:4: 梯度错误: 静默出错\n    第 4 行（`out.data.zero_()`）通过 `out.data`" in done.stdout


def test_what_a_notebook_keeps_is_chinese(recording) -> None:
    """The image of a saved notebook, its description, and the text that stands behind it."""
    bundle = show(recording, lang="zh")._repr_mimebundle_()[0]
    assert '<img alt="自动求导图，第' in bundle["text/html"]
    assert "梯度却是错的" in bundle["text/plain"].replace("\n", "").replace(" ", "")


def test_a_wrong_option_of_the_magic_is_told_in_chinese(monkeypatch) -> None:
    monkeypatch.setenv("SEEGRAD_LANG", "zh")
    with pytest.raises(UsageError, match=r"%%see 这一行的选项不对：.*用法：%%see"):
        MagicLine().error("--sted")


def test_counts_have_their_own_form() -> None:
    with speaking("en"):
        said = [counted("{count} finding", "{count} findings", n) for n in (0, 1, 2)]
        assert said == ["{count} findings", "{count} finding", "{count} findings"]
    with speaking("zh"):
        assert counted("{count} finding", "{count} findings", 1) == "{count} 处问题"


def test_no_blank_stands_between_chinese_characters() -> None:
    assert closed("一个张量 被改写；out 变了") == "一个张量被改写；out 变了"


def test_an_unnamed_tensor_is_described_in_chinese() -> None:
    labels = (
        phrase(A_RESULT, op="exp", line=3),
        phrase(OF_SHAPE, shape="[2, 3]"),
        Phrase(A_TENSOR),
        joined(["`a`", "`w`"]),
        joined(["`a`", "`b`", "`w`"]),
    )
    with speaking("zh"):
        said = [told(label) for label in labels]
    assert said == ["第 3 行 `exp` 的结果", "一个形状为 [2, 3] 的张量", "一个张量", "`a`、`w`", "`a`、`b`、`w`"]


def test_the_player_has_the_same_words_in_both_languages() -> None:
    """tsc checks the keys; here: no English is left but the class of a Function."""
    text = (ROOT / "frontend/src/ui/words.ts").read_text(encoding="utf-8")
    chinese = text[text.index("const zh_CN") : text.index("const tables")]
    values = [json.loads(value) for value in re.findall(r': ("[^"]*")', chinese)]
    assert len(values) > 20
    assert set(LATIN.findall(" ".join(values))) <= {
        "Home",
        "End",
        "Page",
        "Up",
        "Down",
        "Shift",
        "Python",
        "Function",
        "NaN",
        "Inf",
        "f",
        "g",
        "n",
        "seegrad",
    }


def test_one_thing_has_one_word_in_chinese() -> None:
    """So that what is searched for is found on each page about it."""
    paths = [*(ROOT / "docs" / "site" / "zh_CN").rglob("*.md"), *(ROOT / "locale" / "zh_CN").glob("*.po")]
    paths += [ROOT / "README.zh_CN.md", ROOT / "docs" / "site" / "programs" / "zh_CN.toml"]
    paths += (ROOT / "seegrad" / "locale" / "zh_CN").rglob("*.po")
    for path in paths:
        text = path.read_text(encoding="utf-8")
        for word, around in ELSE_CALLED.items():
            assert word not in (text.replace(around, "") if around else text), f"{path.name}: {word}"
