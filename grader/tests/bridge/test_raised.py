"""What a test may ask of an exception is what may be asked of it in one process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from nbjudge.bridge.raised import GIVEN_BYTES, PARTS
from nbjudge_tests.two_sides import Lend, lend, pair, scenarios

__all__ = ["lend", "pair"]  # fixtures


def test_an_end_of_input_that_an_answer_raises_is_no_end_of_the_conversation(lend: Lend) -> None:
    def ends(kind: type[BaseException]) -> Callable[[], None]:
        def end() -> None:
            raise kind("no more")

        return end

    for kind in (EOFError, ConnectionResetError, BrokenPipeError, SystemExit):
        with pytest.raises(kind, match="no more"):
            lend(ends(kind))()
    assert lend(lambda: 3)() == 3


def test_an_error_that_can_t_be_told_is_told_by_its_name(lend: Lend) -> None:
    class Odd(Exception):
        @property
        def args(self) -> Any:
            raise Odd

    def f() -> None:
        raise Odd

    assert type(caught(lend(f))).__name__ == "RuntimeError"
    assert lend(lambda: 3)() == 3


def caught(function: Callable[..., Any], *args: Any) -> Any:
    """What a call raises."""
    try:
        function(*args)
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def given_by_its_class(lend: Lend) -> Any:
    class Slots(Exception):
        __slots__ = ("amount",)

        def __init__(self, amount: int) -> None:
            self.amount = amount

    class HTTPError(Exception):
        code = 500

        @property
        def amount(self) -> Any:
            return self.args[0]

        @property
        def broken(self) -> Any:
            raise SystemExit("nobody asked")

        def describe(self, by: str = ": ") -> str:
            return f"{self.code}{by}{self.amount}"

        @staticmethod
        def unit() -> str:
            return "euro"

        @classmethod
        def codes(cls) -> list[int]:
            return [cls.code]

    class NotFound(HTTPError):
        code = 404

    kinds = lend(Slots), lend(NotFound)

    def fail(kind: int, amount: int) -> None:
        raise (Slots, NotFound)[kind](amount)

    f = lend(fail)
    slots, found = caught(f, 0, 3), caught(f, 1, 4)
    parts = found.code, found.amount, found.describe(), found.describe(by=" "), found.unit(), found.codes()
    is_one = isinstance(slots, kinds[0]), isinstance(found, kinds[1])
    return slots.amount, parts, is_one, hasattr(found, "nothing")


def of_one_that_is_returned(lend: Lend) -> Any:
    class Refused(ValueError):
        limit = 3

        def over(self, by: int) -> int:
            return self.limit + by

    def make() -> Exception:
        return Refused("no")

    one = lend(make)()
    return one.limit, one.over(2), str(one), lend(Refused)("x").over(1)


def as_it_was_when_it_crossed(lend: Lend) -> Any:
    class Counting(Exception):
        last = 0

    def fail(count: int) -> None:
        Counting.last = count
        raise Counting

    f = lend(fail)
    first = caught(f, 1).last
    return first, caught(f, 2).last


def of_a_data_class(lend: Lend) -> Any:
    @dataclass
    class Missing(Exception):
        name: str
        most: int = 3

    def fail() -> None:
        raise Missing("x")

    error = caught(lend(fail))
    return error.name, error.most


def of_python_s_own(lend: Lend) -> Any:
    def read(name: str) -> str:
        with open(name, encoding="utf-8") as file:  # noqa: PTH123 - as a student does
            return file.read()

    def fetch() -> Any:
        import nothing_of_this_name  # type: ignore[import-not-found]  # it isn't there

        return nothing_of_this_name

    def look() -> Any:
        return [1].nothing  # type: ignore[attr-defined]  # what is tested

    def name() -> Any:
        return nobody  # type: ignore[name-defined]  # noqa: F821 - what is tested

    def key() -> Any:
        return {}["k"]

    def stop() -> Any:
        raise StopIteration(5)

    lost, missing = caught(lend(read), "nope.txt"), caught(lend(fetch))
    looked, named = caught(lend(look)), caught(lend(name))
    decoded, code = caught(lend(b"a\xff".decode)), caught(lend(lambda: compile("1 +", "cell", "eval")))
    return (
        (lost.filename, lost.filename2, lost.errno, lost.strerror, missing.name, missing.path, missing.msg),
        (looked.name, looked.obj, named.name, caught(lend(key)).args, caught(lend(stop)).value),
        (decoded.object, decoded.start, decoded.end, decoded.reason, decoded.encoding),
        (code.filename, code.lineno, code.offset, code.text, code.msg),
    )


def of_a_file_s_own_error(lend: Lend) -> Any:
    class Locked(OSError):
        @property
        def filename(self) -> str:  # type: ignore[override]  # as a student may
            return "mine"

    def fail() -> None:
        raise Locked(13, "locked", "theirs")

    error = caught(lend(fail))
    return error.filename, error.errno, error.args


def that_holds_itself(lend: Lend) -> Any:
    class Round(Exception):
        @property
        def itself(self) -> Exception:
            return self

        @property
        def another(self) -> Exception:
            return Round()

    def fail() -> None:
        error = Round()
        error.me = error  # type: ignore[attr-defined]  # what is tested
        error.size = 3  # type: ignore[attr-defined]  # what is tested
        raise error

    return caught(lend(fail)).size


SCENARIOS = scenarios(globals())


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_as_in_one_process(scenario: Callable[[Lend], Any], lend: Lend) -> None:
    assert scenario(lend) == scenario(lambda thing: thing)


def test_of_what_a_class_gives_only_small_data_and_so_many_parts_cross(lend: Lend) -> None:
    class Large(Exception):
        table = "x" * (GIVEN_BYTES + 1)
        rows = tuple(tuple(range(1000)) for _ in range(1000))
        small = 3

    def large() -> None:
        raise Large

    def many() -> None:
        raise type("Many", (Exception,), {f"at_{number}": number for number in range(PARTS + 9)})

    error = caught(lend(large))
    assert error.small == 3
    assert not hasattr(error, "table")
    assert not hasattr(error, "rows")
    assert sum(hasattr(caught(lend(many)), f"at_{number}") for number in range(PARTS + 9)) == PARTS


def test_nothing_of_a_student_s_stands_in_the_place_of_what_every_error_has(lend: Lend) -> None:
    class Posing(OSError):
        def with_traceback(self, _trace: Any) -> Any:
            return ValueError("another")

        def __reduce__(self) -> Any:
            return str, ()

    def fail() -> None:
        error = Posing("one")
        error.__dict__["add_note"] = print
        raise error

    error = caught(lend(fail))
    assert error.with_traceback(None) is error
    assert not {"with_traceback", "add_note", "__reduce__"} & set(vars(error))
