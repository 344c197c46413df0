"""The site's programs and the pages on errors that are made of them: what they say is what happens."""

from __future__ import annotations

import contextlib
import io
import re
import tomllib
import warnings
from html import escape, unescape
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import torch

from nbjudge_tests.session import one_in
from tests.data.programs import SEVERITIES, programs
from tools.course.masters import BookError
from tools.site.flipped import program_html
from tools.site.programs import FOLDER, MOST_FLIPPED, FlippedProgram, read_program, read_programs, remarks, titles
from tools.site.recorded import play, plays, severity_of
from tools.site.sources import documents
from tools.site.subjects import FLIPS, SUBJECTS, chapter_of, error_of, subject_of

ROOT = Path(__file__).parents[2]
PROGRAMS = read_programs(ROOT)
ERRORS = sorted((ROOT / "docs" / "site" / "en" / "errors").glob("[!i]*.md"))
EMBEDDED = re.compile(r"^:::\{flip\} (\w+)$", re.MULTILINE)
BULLET = re.compile(r"^- `([^`]+)`(?:: |：)", re.MULTILINE)


def test_the_index_leads_to_each_document() -> None:
    """Sphinx warns of one that no list has, and the site isn't built."""
    text = (ROOT / "docs" / "site" / "en" / "index.md").read_text(encoding="utf-8")
    lists = "\n".join(re.findall(r"^:::\{toctree\}\n(.*?)^:::$", text, re.MULTILINE | re.DOTALL)).split()
    left = [name for _, name in documents(ROOT) if not any(PurePosixPath(name).match(each) for each in lists)]
    assert left == []


def test_no_two_pages_have_one_title() -> None:
    """In what a search finds they couldn't be told apart."""
    files = [*(ROOT / path for path, _ in documents(ROOT)), *(ROOT / "notebooks").glob("*.py")]
    texts = [path.read_text(encoding="utf-8").removeprefix("# %% [markdown]\n# ") for path in files]
    heads = [text.partition("\n")[0].removeprefix("# ") for text in texts]
    found = [*heads, *(program.title for program in PROGRAMS.values())]
    assert sorted(found) == sorted(set(found))


@pytest.mark.parametrize("name", one_in(9, sorted(PROGRAMS)))
def test_the_mistake_is_found_and_its_mend_is_right(name: str) -> None:
    """`plays` raises where the first choice isn't diagnosed as its file says, or the mended one not clean."""
    made = plays(PROGRAMS[name])
    assert len(made) == len(PROGRAMS[name].choices) > 1


@pytest.mark.parametrize("name", one_in(9, sorted(PROGRAMS)[4:]))
def test_the_gradients_shown_are_torch_s_own(name: str) -> None:
    """The oracle: each choice run plain, without a recording, its leaves read as torch has them."""
    program = PROGRAMS[name]
    for choice, done in plays(program).items():
        torch.manual_seed(0)
        names: dict[str, Any] = {"__name__": "__main__"}
        raised = ""
        with warnings.catch_warnings(action="ignore"), contextlib.redirect_stdout(io.StringIO()):
            try:
                exec(program.code(choice), names)  # noqa: S102  # the same program, as anybody would run it
            except Exception as error:
                raised = str(error)
        assert raised in done.says
        for shown, told in done.gradients:
            leaf: Any = names
            for part in shown.removesuffix(".grad").split("."):
                leaf = (
                    leaf[part] if isinstance(leaf, dict) else leaf[int(part)] if part.isdigit() else getattr(leaf, part)
                )
            if leaf.grad is None:
                assert told == "None"
            else:
                values = [float(each) for each in re.findall(r"-?(?:[\d.]+(?:e[+-]\d+)?|nan|inf)", told)]
                expected = (leaf.grad.to_dense() if leaf.grad.is_sparse else leaf.grad).flatten().float()
                torch.testing.assert_close(torch.tensor(values), expected, rtol=1e-3, atol=1e-6, equal_nan=True)


def test_every_mistake_of_the_corpus_has_its_page() -> None:
    assert {program.kind for program in PROGRAMS.values()} - {""} == set(SEVERITIES)
    known = programs()
    for program in PROGRAMS.values():
        if program.corpus:
            assert known[program.corpus].kind == program.kind, program.name


def test_there_are_enough_of_them_with_few_lines_to_flip() -> None:
    assert len(PROGRAMS) >= 30
    assert sum(1 <= len(program.alternatives) <= MOST_FLIPPED for program in PROGRAMS.values()) >= 20


def test_each_has_a_title_and_a_text_in_chinese() -> None:
    said = titles(ROOT, "zh_CN")
    assert said.keys() == PROGRAMS.keys()
    for name, (title, text) in said.items():
        assert re.search("[一-鿿]", title), name
        assert re.search("[一-鿿]", text), name
        english = f"{PROGRAMS[name].title} {PROGRAMS[name].text}"
        assert set(re.findall("`[^`]+`", f"{title} {text}")) <= set(re.findall("`[^`]+`", english)), name


@pytest.mark.parametrize("name", one_in(3, sorted(PROGRAMS)))
def test_where_an_alternative_silences_the_error_its_page_says_what_it_is(name: str) -> None:
    """Whether it mends or only silences: torch says nothing, as of the mended program, and the two look alike."""
    program = PROGRAMS[name]
    made = plays(program)
    first = program.choices[0]
    if ": " not in made[first].says:
        return
    for place, each in enumerate(program.alternatives):
        for option, remark in enumerate(each.remarks):
            choice = (*first[:place], option, *first[place + 1 :])
            if option not in (first[place], each.right) and not made[choice].says:
                assert remark, each.options[option]


def test_what_is_said_of_an_alternative_is_said_in_chinese_too() -> None:
    for name, known in remarks(ROOT, "zh_CN").items():
        lines = PROGRAMS[name].alternatives
        said = {
            line.strip(): remark
            for each in lines
            for line, remark in zip(each.options, each.remarks, strict=True)
            if remark
        }
        assert known.keys() == said.keys(), name
        for line, text in known.items():
            assert re.search("[一-鿿]", text)
            assert re.findall("`[^`]+`", text) == re.findall("`[^`]+`", said[line])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('"A title alone"\na = 1\n# bug: a = 2\n', "an empty line"),
        ('"T\\n\\nX."\na = 1\n', "one to three lines"),
        ('"T\\n\\nX."\na = 1\n# or: a = 2\n', "a bug"),
        ('"T\\n\\nX."\n# bug: a = 2\na = 1\n', "above the first line"),
    ],
)
def test_a_program_that_is_written_otherwise_is_refused(text: str, why: str) -> None:
    with pytest.raises(BookError, match=why):
        read_program("x", text)


def made_of(text: str) -> FlippedProgram:
    return read_program("x", f'"T\\n\\nX."\n{text}')


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("# kind: graph_cut\na = 1\n# bug: a = 2\n", r"gets \[\], not graph_cut"),
        ("# error: no such word\na = 1\n# bug: a = 1 / 0\n", "division by zero"),
        ("a = 1 / 0\n# bug: a = 1\n", "mended it still has"),
    ],
)
def test_a_page_that_would_say_what_isn_t_so_isn_t_built(text: str, why: str) -> None:
    with pytest.raises(BookError, match=why):
        plays(made_of(text))


def test_no_choice_moves_a_line() -> None:
    program = PROGRAMS["hidden_state"]
    for choice in program.choices:
        compile(program.code(choice), "x", "exec")
        assert len(program.code(choice).splitlines()) == len(program.lines)


def test_warnings_are_what_torch_says_too() -> None:
    assert (
        "is not a leaf Tensor is being accessed"
        in play("import torch\nw = torch.ones(1, requires_grad=True)\n(w * 2).grad\n").says
    )


def test_a_graph_that_is_retained_in_a_loop_grows_with_each_round() -> None:
    """So it is no cure there, as the page of that error says."""
    a, h, lengths = torch.ones(1, requires_grad=True), torch.zeros(1), []
    for _round in range(4):
        h = torch.tanh(h * a + 1)
        h.sum().backward(retain_graph=True)
        behind = [h.grad_fn]
        for node in behind:  # grows while it's read
            behind += [each for each, _ in node.next_functions if each is not None] if node is not None else []
        lengths.append(len(behind))
    assert lengths == sorted(set(lengths))


@pytest.mark.parametrize("lang", ["en", "zh_CN"])
def test_what_a_program_prints_is_text(lang: str) -> None:
    page = program_html(made_of('print("<b>&</b>")\n# bug: print("</script>")\n'), lang)
    before, _, after = page.partition('<script type="application/gzip">')
    assert "<b>&" not in before + after.partition("</script>")[2]
    assert page.count("</script>") == 1
    assert "&lt;/script&gt;" in page


@pytest.mark.parametrize(("lang", "said"), [("en", "no such line"), ("zh_CN", "没有这一行")])
def test_of_a_line_that_is_removed_its_page_says_so(lang: str, said: str) -> None:
    page = program_html(made_of("for _ in range(1):\n    a = 1\n    # bug: pass\n"), lang)
    options = [unescape(re.sub("<[^>]*>", "", each)) for each in re.findall("<label>(.*?)</label>", page)]
    assert options[:2] == [f"pass  # {said}", "a = 1"]
    for each in options[:2]:
        compile(each, "copied", "exec")


def test_what_was_found_is_said_in_the_page_s_language() -> None:
    program = PROGRAMS["data_written"]
    (found,) = plays(program)[program.choices[0]].recording.diagnoses
    for lang, head in (("en", "WRONG GRADIENT: silent corruption"), ("zh_CN", "梯度错误：静默出错")):
        page = program_html(program, lang)
        assert f"<strong>{head}</strong>" in page
        assert escape(found.message(lang)[:6]) in page.partition("<tbody>")[2].partition("</tbody>")[0]


def test_each_chapter_with_mistakes_has_programs_of_the_gallery() -> None:
    known = tomllib.loads((ROOT / FLIPS).read_text(encoding="utf-8"))
    chapters = {path.stem for path in (ROOT / "notebooks").glob("*.py")}
    assert chapters - known.keys() == {"00_start_here"}
    assert known.keys() <= chapters
    assert {name for names in known.values() for name in names} <= PROGRAMS.keys()


def test_each_program_has_a_subject_and_leads_on() -> None:
    chapters = {path.stem for path in (ROOT / "notebooks").glob("*.py")}
    assert {subject_of(program) for program in PROGRAMS.values()} == set(SUBJECTS)
    led = {name: chapter_of(program, PROGRAMS, ROOT) for name, program in PROGRAMS.items()}
    assert set(led.values()) - {""} <= chapters
    assert (led["relu_inplace"], led["hidden_state"]) == ("04_inplace_and_version", "07_dynamic_graphs")
    assert sum(map(bool, led.values())) > 0.7 * len(led)


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("relu_inplace", "modified_inplace"),
        ("hidden_state", "second_time"),
        ("detach_cuts", None),
        ("overlapping", None),
    ],
)
def test_a_program_leads_to_the_page_on_what_torch_says_of_it(name: str, page: str | None) -> None:
    found = error_of(PROGRAMS[name], ERRORS)
    assert (found.stem if found else None) == page


# -- the pages on errors


def test_the_eight_errors_are_there_in_both_languages() -> None:
    assert len(ERRORS) >= 8
    for path in ERRORS:
        chinese = ROOT / "docs" / "site" / "zh_CN" / "errors" / path.name
        english, other = path.read_text(encoding="utf-8"), chinese.read_text(encoding="utf-8")
        assert EMBEDDED.findall(english) == EMBEDDED.findall(other)
        assert BULLET.findall(english) == BULLET.findall(other)
        assert english.splitlines()[0] == other.splitlines()[0]
        assert "```" not in english + other  # all code is programs, which are run


@pytest.mark.parametrize("path", one_in(4, ERRORS), ids=lambda path: path.stem)
def test_each_case_says_what_its_page_is_called(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    core = text.splitlines()[0].removeprefix("# *").removesuffix("*")
    for name in EMBEDDED.findall(text):
        first = plays(PROGRAMS[name])[PROGRAMS[name].choices[0]]
        assert core in first.says, name
        assert severity_of(PROGRAMS[name]) in ("error", "note")


@pytest.mark.parametrize("path", one_in(4, ERRORS), ids=lambda path: path.stem)
def test_each_fix_is_a_choice_that_raises_nothing(path: Path) -> None:
    """And what to look out for is one too: with it, the error of the page is gone or stays, as its play says."""
    text = path.read_text(encoding="utf-8")
    fixes, _, others = text.partition("## Look out")
    assert BULLET.findall(fixes)
    for line in BULLET.findall(fixes):
        done = with_line(text, line)
        assert not done.says, line
        assert not [found for found in done.recording.diagnoses if found.severity != "note"], line
    for line in BULLET.findall(others):
        assert with_line(text, line), line


@pytest.mark.parametrize("path", one_in(4, ERRORS), ids=lambda path: path.stem)
def test_what_mends_a_case_stands_by_the_case(path: Path) -> None:
    """A page of several cases has no fixes at its end, where one doesn't know which is whose."""
    parts = path.read_text(encoding="utf-8").split("\n### ")
    for case in parts[1:]:
        after = case.partition(":::\n")[2].partition("\n## ")[0].partition("\n(")[0]
        assert after.strip(), case
    assert len(parts) == 1 or "## The fix" not in parts[-1]


def with_line(page: str, line: str) -> Any:
    """The play of a program of the page with this line, all else mended."""
    for name in EMBEDDED.findall(page):
        program = PROGRAMS[name]
        for place, line_of in enumerate(program.alternatives):
            for option, each in enumerate(line_of.options):
                if each.strip() == line:
                    choice = tuple(option if k == place else right for k, right in enumerate(program.mended))
                    return plays(program)[choice]
    raise AssertionError(f"no program of the page has the line {line!r}")


def test_every_file_of_the_folder_is_read() -> None:
    assert {path.stem for path in (ROOT / FOLDER).glob("*.py")} == PROGRAMS.keys()
