"""In the judge: what of the student's may stand where, and which of a verdict's grounds are only their word.

Data crosses by value. Anything else stands only in a *role* that the reference's thing had at that place: to be called,
or as an object of an asked class, or a library's. A *word* is what it says by an operator, a comparison, its truth,
length or hash, or a method that answers yes or no to the test; a *fact*, what is said of a tensor (`is_leaf`, …).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from nbjudge.bridge.objects import ARITHMETIC, COMPARING, SHOWN
from nbjudge.bridge.standing import Nature, Refused, Role, Sought, Stand
from nbjudge.bridge.values.records import fields_in
from nbjudge.bridge.values.standard import instances
from nbjudge.bridge.values.table import kind_of
from nbjudge.names import HELD
from nbjudge.roles.lacks import LACKING, is_found, is_theirs, keys_of, lacks_of, looks_of, masks_of, parts_of
from nbjudge.roles.reached import is_cut_short, is_missed, paired_role
from nbjudge.roles.verdict import a, expected, where

Known = Mapping[str, frozenset[str]]
MOST = 1 << 12  # places that are remembered of one question
REPLACED = "replaced"  # a file of the course's own
COMPLETE = "complete"  # a value that lacks nothing
MASKS = "masks "  # in a role, before what tells which items are masked
GIVEN = " given "  # in a role: to what the arguments were
OF_ONE_PLACE = 256  # roles, before no more arguments are remembered
STATE = "state of "  # in a role, before where the course defines a class
OF = "object of "  # in a role, before a name that was asked for
SCORE = "="  # the place of a question's last expression
SAID_BY_ITSELF = frozenset({"__bool__", "__hash__"})


class Places:
    """What one question has looked at so far, and what the reference answer showed at the same places."""

    def __init__(self) -> None:
        self.asked: frozenset[str] = frozenset()  # the names that the assignment asks for
        self.classes: dict[type, set[str]] = {}  # stand-ins for classes → the names that they are bound to
        self.seen: dict[str, set[str]] = {}
        self.facts: set[str] = set()
        self.words: set[str] = set()
        self.surprises: set[str] = set()  # words that the reference answer didn't give
        self.worded: list[Any] = []  # what words consist of
        self.data = False  # has it looked at numbers, texts, tensors' values, gradients?
        self._giving: dict[int, Any] = {}  # iterators that have, kept alive: the key is an id()
        self._made: dict[int, tuple[Any, str]] = {}  # the same of all, and what they were made of: `GIVEN` …
        self._asked_with: dict[int, str] = {}  # by id() of a question that waits for its answer: `GIVEN` …
        self._gave: dict[str, set[str]] = {}  # by place: what the values lacked, or that one was whole
        self._ran: set[str] = set()  # places whose examples have run
        self._held: set[str] = set()  # checks that were made
        self._found: dict[int, bool | None] = {}  # in an object, by going through it; by id() of a question
        self._hashes: dict[int, tuple[Any, Any]] = {}  # that were said first, by id() of a thing that is kept alive
        self.refused: Stand | None = None
        self._known: Known | None = None
        self._recording = False

    def hold(self, known: Known | None, *, recording: bool) -> None:
        """What the reference answer showed in the next question, None without one; or, that it is the reference."""
        self._known, self._recording = known, recording

    def begin(self) -> None:
        """A new question, or the same one once more."""
        for kept in (self.classes, self.seen, self.facts, self.words, self.surprises, self.worded):
            kept.clear()
        for own in (self._giving, self._made, self._asked_with, self._gave, self._ran, self._held):
            own.clear()
        self._hashes.clear()
        self._found.clear()
        self.data, self.refused = False, None

    @property
    def is_known(self) -> bool:
        """Has a reference answer been through this question? What fails then is the answer's matter."""
        return self._known is not None

    @property
    def claims(self) -> tuple[str, ...]:
        """What it rests on that only the student's process said, for the list beside the grade."""
        return tuple(sorted(self.facts | self.words))

    @property
    def alone(self) -> bool:
        """Does the verdict rest on the student's word alone?"""
        return bool(self.surprises) or (bool(self.facts | self.words) and not self.data)

    # ------------------------------------------------------------------ roles

    def named(self, name: str, kind: type) -> None:
        """A name stands for this class."""
        self.classes.setdefault(kind, set()).add(name)

    def knows(self, kind: type) -> bool:
        """Is it a class that a name stands for, or derived from one?"""
        return any(base in self.classes for base in kind.__mro__)

    def admit(self, nature: Nature, places: tuple[str, ...]) -> Stand:
        """As what a thing stands that has come from these places."""
        kinds = nature.classes[:1] if nature.form == "class" else nature.classes
        names = tuple(sorted({name for kind in kinds for name in self.classes.get(kind, ())}))
        self._note(places, _roles(nature, names))
        role = self._role(nature, places, asked=bool(names))
        if role is Role.STRANGER:
            return self._stranger(nature, places)
        if nature.form == "object" and (roles := self._roles(places)) is not None:
            of = tuple(sorted(found.removeprefix(OF) for found in roles if found.startswith(OF)))
            names = names if names and of else of  # its own class's, where the reference's was of one, too
        if role is Role.OBJECT and names:
            whole = nature.form == "class"
            return Stand(role, names if whole else tuple(f"<{name}>" for name in names), of_class=whole)
        return Stand(role, places)

    def _role(self, nature: Nature, places: tuple[str, ...], *, asked: bool) -> Role:
        if nature.form == "iterator":
            return Role.ITERATOR
        roles = self._roles(places)
        if nature.form == "class" and asked and (roles is None or "call" in roles):
            return Role.OBJECT
        if nature.form == "library":
            inside = any(place.endswith("[]") for place in places)
            return Role.OBJECT if self._recording or _knows_library(roles, inside=inside) else Role.STRANGER
        if self._recording:
            return Role.CALLABLE if nature.form == "function" else Role.OBJECT
        if roles is None:
            if asked:
                return Role.OBJECT
            return Role.CALLABLE if nature.calls and any(map(_is_asked_for, places)) else Role.STRANGER
        of_asked = nature.form == "object" and any(role.startswith(OF) for role in roles)
        if nature.form != "function" and (
            ("object" in roles and asked)
            or of_asked
            or "own" in roles
            or (nature.manages and "manager" in roles)
            or {f"object {home}" for home in nature.homes} & roles
        ):
            return Role.OBJECT
        return Role.CALLABLE if nature.calls and "call" in roles else Role.STRANGER

    def _roles(self, places: Iterable[str]) -> frozenset[str] | None:
        """What the reference answer showed there; None where it never came."""
        if self._known is None:
            return None
        found = [self._known[place] for place in places if place in self._known]
        held = any(place.endswith("[]") and place[:-2] in self._known for place in places)
        return frozenset[str]().union(*found) if found or held else None

    def _stranger(self, nature: Nature, places: tuple[str, ...]) -> Stand:
        roles = self._roles(places)
        said = f"{where(places)} {a(nature.name[:80])}"
        if roles is None:
            sentence = f"{said}; no released answer showed what it may be here, so a person has to look."
            return Stand(Role.STRANGER, (), sentence, waits=True)
        sentence = f"{said}, expected {expected(roles)}."
        if nature.ours or nature.form in ("function", "library"):
            return Stand(Role.STRANGER, (), sentence)
        return Stand(Role.STRANGER, (), f"{sentence} It is a library's: a person has to look.", waits=True)

    def refuse(self, standing: Stand) -> NoReturn:
        """A thing is used that stands in no role."""
        self.refused = self.refused or standing
        raise Refused(standing.sentence, waits=standing.waits)

    # ------------------------------------------------------------------ what was looked at

    def found(self, names: Mapping[str, Any]) -> None:
        """The test reads these names."""
        for name, value in names.items():
            self._note_data((name,), value)
            self.data = self.data or (name in self.asked and is_data(value))

    def wrote(self, files: Mapping[str, bool]) -> None:
        """What of these files there is nothing in, when the test is over."""
        for place, hollow in files.items():
            self._note((place,), {"data file"})
            self._lack((place,), {"empty"} if hollow else set())

    def sought(self, missed: Iterable[str], laid: Iterable[str]) -> None:
        """Which files the test has looked for in vain, and which of the student's it has found.

        One that the reference answer doesn't give, though it was looked for, may be settings of a tool.
        """
        self._note(missed, {"absent"})
        for place in laid:
            roles = self._roles((place,)) or frozenset()
            if "absent" in roles and "data file" not in roles:
                self.vouch(f"not given by the reference: {place}")

    def asking(self, asked: Sought) -> None:
        """Before it is asked: with what? And is it there, where an object is told what is looked for in it?"""
        if self._may_lack(asked.places) and (given := self._given(asked)):
            self._asked_with[id(asked)] = given
        if (asked.op, asked.name) != ("special", "__contains__") or self._known is None:
            return
        if not any(role.startswith("word ") for role in self._roles(asked.places) or ()):
            self._found[id(asked)] = is_found(next(iter(_arguments(asked)), None), asked.thing)

    def looked(self, asked: Sought, result: Any) -> None:
        """What was asked of a thing of the student's, and what came."""
        given = self._asked_with.pop(id(asked), "")
        if isinstance(result, BaseException):
            self._raised(asked, result)
            return
        if asked.op in ("assign", "remove") or result is NotImplemented:
            return
        if is_theirs(result) and isinstance(result, Iterator):
            self._made.setdefault(id(result), (result, given))
        if asked.name == "__next__" and id(asked.thing) not in self._giving:
            self._giving[id(asked.thing)] = asked.thing
            self._came_of(asked, set())
        if asked.op == "source":
            self.facts.add("the text of a function")
            return
        if asked.name == "__exit__":
            self._left(asked, result)
        self._note_data(asked.places, result, given)
        if not (_is_compared(asked) or is_data(result) or _is_tensor(result)):
            return
        if (about := self._word(asked, result)) is not None:
            self._say(asked, about, result)
            self.worded.append(result)
        elif not (asked.name in SHOWN or (asked.op == "attribute" and asked.name.startswith("__"))):
            self.data = self.data or is_data(result)

    def came(self, places: tuple[str, ...], value: Any) -> None:
        """What the student's process has brought of itself."""
        if places:
            self._note_data(places, value)

    def _raised(self, asked: Sought, error: BaseException) -> None:
        """An error is data where the reference raises too; the end of a loop, or a name that isn't there, never is."""
        self._note(asked.places, {"raises"})
        roles = self._roles(asked.places)
        if isinstance(error, StopIteration):
            if asked.name != "__next__" and roles is not None and "raises" not in roles:
                self.vouch(f"the end of the test's own loop: {asked.places[0]}")
            elif asked.name == "__next__" and id(asked.thing) not in self._giving:
                self._came_of(asked, {"empty"})
        ends = isinstance(error, StopIteration | StopAsyncIteration | AttributeError)
        self.data = self.data or (not ends and (roles is None or "raises" in roles))

    def _came_of(self, asked: Sought, lacked: set[str]) -> None:
        """Whether anything has come of an iterator, is said where it was made, and of what it was made of."""
        given = self._made.get(id(asked.thing), (None, ""))[1]
        self._lack(tuple(place.removesuffix("[]") for place in asked.places), lacked, given)

    def _left(self, asked: Sought, swallows: Any) -> None:
        """A `with` is over: an error in it that the reference would let through is the test's own failure."""
        kind = asked.given[0][0] if asked.given[0] else None
        if kind is None or swallows is None or (is_data(swallows) and not swallows):  # what isn't data is true
            return
        role = f"swallows {type.__getattribute__(kind, '__name__')[:80]}"
        self._note(asked.places, {role})
        if not self._recording and role not in (self._roles(asked.places) or ()):
            self.vouch(f"{role}: {asked.places[0]}")

    def _word(self, asked: Sought, result: Any) -> str | None:
        """What of the test's a word is about; None where it is none."""
        ours = [value for value in _arguments(asked) if not is_theirs(value)]
        about = " ".join(sorted({type(value).__name__ for value in ours})) or "its own"
        if _is_compared(asked):
            return about
        if asked.op == "special" and asked.name in ARITHMETIC:
            return about if ours else None
        member = asked.op == "method" or any(place.startswith("<") or "!" in place for place in asked.places)
        called = asked.op in ("method", "call") or (asked.op, asked.name) == ("special", "__call__")
        return about if ours and called and member and self._says_yes_or_no(asked, result) else None

    def _says_yes_or_no(self, asked: Sought, result: Any) -> bool:
        """A truth value; or, whatever it is, where the reference answer gave one, or where there is none."""
        roles = self._roles(asked.places)
        if type(result).__name__ in ("bool", "bool_") or (_is_tensor(result) and str(result.dtype) == "torch.bool"):
            return True
        return "data bool" in roles if roles is not None else not self._recording and type(result) is int

    def _say(self, asked: Sought, given: str, result: Any) -> None:
        kind = asked.thing if isinstance(asked.thing, type) else type(asked.thing)
        word = f"{asked.name[:80] or 'a call'} of {type.__getattribute__(kind, '__name__')[:80]}"
        self.words.add(word)
        self._note(asked.places, {f"word {given}"})
        expected = self._recording or f"word {given}" in (self._roles(asked.places) or ())
        if not expected and not self._is_as_python_says(asked, result):
            self.surprises.add(word)

    def _is_as_python_says(self, asked: Sought, result: Any) -> bool:
        """Does it say what Python would of an object without this method? Then it is as good as one without."""
        thing, other = asked.thing, next(iter(_arguments(asked)), None)
        if asked.name == "__hash__":  # which has to stay the same
            return type(result) is int and self._hashes.setdefault(id(thing), (thing, result))[1] == result
        if asked.name == "__contains__":
            return isinstance(result, bool) and result is self._found.get(id(asked))
        plain = {"__bool__": True, "__eq__": thing is other, "__ne__": thing is not other}
        return asked.name in plain and result is plain[asked.name]

    def replaceable(self, names: Iterable[str]) -> frozenset[str]:
        """Of the course's own files, those that the reference's answers replace; while it is graded itself, all."""
        return frozenset(name for name in names if self._recording or REPLACED in (self._roles((f"./{name}",)) or ()))

    def replaced(self, names: Iterable[str]) -> None:
        """These files of the course's own are the answers' by now."""
        self._note((f"./{name}" for name in names), {REPLACED})

    def may_run(self, places: tuple[str, ...], said: str) -> bool:
        """Is this text, which runs as code here, the released answer's own at one of these places?"""
        role = f"runs {hashlib.sha256(said.encode()).hexdigest()[:32]}"
        self._note(places, {role})
        self._ran.update(places)
        return self._recording or role in (self._roles(places) or ())

    def may_raise(self, home: str, places: tuple[str, ...]) -> bool:
        """Is an error of this class of a library's what the released answer raises at one of these places?"""
        role = f"raises {home}"
        self._note(places, {role})
        return self._recording or role in (self._roles(places) or ())

    def is_given(self, homes: Sequence[str], places: tuple[str, ...]) -> bool:
        """Is an object of a class of the course's what the released answer has at one of these places?"""
        roles = {f"{STATE}{home}" for home in homes}
        self._note(places, roles)
        return self._recording or bool(roles & (self._roles(places) or set()))

    def is_score(self, *, shown: bool) -> bool:
        """Is the question's last expression a score? It is where the reference's was; `shown`: this one is a number."""
        if shown:
            self._note((SCORE,), {"score"})
        return shown or "score" in (self._roles((SCORE,)) or ())

    def end(self) -> None:
        """The test is over. It has to have made each check that it made of the reference answer, and to have run its
        examples; what lacked something each time, where that once lacked nothing, says nothing.
        """
        for place, lacked in self._gave.items():
            if COMPLETE not in lacked and COMPLETE in (self._roles((place,)) or ()):
                self.vouch(f"{LACKING[min(lacked)]}: {place}")
        checks = {place for place, roles in (self._known or {}).items() if HELD in roles}
        for place, roles in (self._known or {}).items():
            if HELD in roles and is_missed(place, self._held, checks):
                self.vouch(f"a check that wasn't made: {place.partition(':')[0]}")
            if place not in self._ran and any(role.startswith("runs ") for role in roles):
                self.vouch(f"no examples: {place}")

    def draws(self, places: tuple[str, ...], *, drew: bool) -> bool:
        """Does the reference draw there? So a test's own numbers are the same, whatever an answer does."""
        self._note(places, {"draws"} if drew else set())
        return drew if self._known is None else "draws" in (self._roles(places) or ())

    def held(self, place: str) -> None:
        """The test has made this check, and it held."""
        self._note((place,), {HELD})
        self._held.add(place)

    def paired(self, place: str, rows: int, length: int | None) -> None:
        """A `zip` of the test's is over. Where the reference's came to the end of what is as long, this one has to."""
        self._note((place,), {paired_role(rows, length)})
        if is_cut_short(self._roles((place,)) or (), rows, length):
            self.vouch(f"checks that weren't made: {place.partition(':')[0]}")

    def vouch(self, word: str) -> None:
        """The verdict is this word of the student's."""
        self.words.add(word)
        self.surprises.add(word)

    def _note_data(self, places: tuple[str, ...], value: Any, given: str = "") -> None:
        if is_theirs(value) or kind_of(value) is None:
            return
        keys = {f"key {key}" for key in keys_of(value)} if self._may_note(places) else set()
        self._note(places, {f"data {type(value).__name__[:80]}", *keys})
        if value is None:  # as good as nothing in it, for one that gives this
            self._note(places, self._with(given, {"empty"}))
            return
        keys = {role.removeprefix("key ") for role in self._roles(places) or () if role.startswith("key ")}
        self._lack(places, found := lacks_of(value, frozenset(keys)), given)
        if "missing" in found and (masks := masks_of(value, frozenset(keys))):
            self._mask(places, f"{MASKS}{hashlib.sha256(masks).hexdigest()[:16]}", given)
        for name, part in instances.parts(value) if instances.is_instance(value) else fields_in(value):
            self._note_data(self._members(places, name), part)

    def _members(self, places: tuple[str, ...], name: str) -> tuple[str, ...]:
        """Where a field of a data class lies; or an attribute, where the reference had an object that was asked for."""
        kinds = [role.removeprefix(OF) for role in sorted(self._roles(places) or ()) if role.startswith(OF)]
        return (*(f"{place}.{name}" for place in places), *(f"<{kind}>.{name}" for kind in kinds))

    def _lack(self, places: tuple[str, ...], found: set[str], given: str = "") -> None:
        """What a value lacks that came from there; nothing, where it's whole."""
        self._note(places, self._with(given, found or {COMPLETE}) if self._may_note(places) else found or {COMPLETE})
        for place in places:
            self._gave.setdefault(place, set()).update(found or {COMPLETE})
        for lack in sorted(found):
            self._is_hollow(places, lack, given)

    def _mask(self, places: tuple[str, ...], masks: str, given: str) -> None:
        """Items are masked: whatever is said of all of them holds of these, so the reference has to mask the same.

        Of a table as many have to be missing as the reference's lacks.
        """
        if self._recording and len(self.seen.get(places[0], ()) if places else ()) < MOST:
            self._note(places, {masks, f"{masks}{given}"})
        roles = self._roles(places)
        known = [role for role in roles or () if given and role.endswith(given)]
        if roles is not None and (f"{masks}{given}" if known else masks) not in roles:
            self.vouch(f"items masked or missing in it that the reference's has: {places[0]}")

    def _with(self, given: str, roles: set[str]) -> set[str]:
        """These, and the same of a call's very arguments."""
        return roles | {f"{role}{given}" for role in roles if given and self._recording}

    def _may_lack(self, places: tuple[str, ...]) -> bool:
        """Where the reference has lacked nothing, whatever it was given, the arguments make no difference."""
        return self._recording or any(role.startswith((MASKS, *LACKING)) for role in self._roles(places) or ())

    @staticmethod
    def _given(asked: Sought) -> str:
        """The end of a role that is a call's with these very arguments; nothing where they aren't plain data."""
        looks = looks_of(_arguments(asked)) if asked.op in ("call", "method") else None
        return f"{GIVEN}{hashlib.sha256(looks).hexdigest()[:16]}" if looks is not None else ""

    def _may_note(self, places: tuple[str, ...]) -> bool:
        """Is it the reference that is asked, and not yet known by so many arguments?"""
        return self._recording and len(self.seen.get(places[0], ()) if places else ()) < OF_ONE_PLACE

    def _is_hollow(self, places: tuple[str, ...], lack: str = "empty", given: str = "") -> None:
        """Something is missing where the reference lacked nothing: what is said of all of it would hold.

        One that is empty for an empty argument was whole for others: what is known of these very arguments counts.
        """
        roles = self._roles(places) or frozenset()
        known = [role for role in roles if given and role.endswith(given)]
        whole = COMPLETE in roles or any(map(self._gives, places))
        if (known and f"{lack}{given}" not in known) or (whole and lack not in roles):
            self.vouch(f"{LACKING[lack]}: {places[0]}")

    def _gives(self, place: str) -> bool:
        """Has the reference an iterator there, which has given something?"""
        roles = self._roles((place,)) or frozenset()
        return "iterator" in roles and f"{place}[]" in (self._known or {})

    def _note(self, places: Iterable[str], roles: set[str]) -> None:
        for place in places if self._recording else ():
            if place in self.seen or len(self.seen) < MOST:
                self.seen.setdefault(place, set()).update(roles)


def _roles(nature: Nature, names: Iterable[str]) -> set[str]:
    """Of an object, also which `names` its class was asked for by: another class of an answer's may do its work."""
    roles = {"call"} if nature.calls else set()
    roles |= {"library"} if nature.form == "library" else set()
    if nature.form == "object":
        roles |= {"object"} | {f"object {home}" for home in nature.homes}
        roles |= {f"{OF}{name}" for name in names} | ({"manager"} if nature.manages else set())
        roles |= {"own"} if nature.ours and not names and not nature.calls else set()
    return roles | ({"iterator"} if nature.form == "iterator" else set())


def _knows_library(roles: frozenset[str] | None, *, inside: bool) -> bool:
    """May a library's thing stand here: where the reference had one, or something to call; else alone, not in data."""
    return not inside if roles is None else bool(roles & {"library", "call"})


def _is_asked_for(place: str) -> bool:
    """A name itself, or what an object of a class that was asked for has.

    >>> [_is_asked_for(place) for place in ("f", "<Net>.forward", "f()", "f.helper")]
    [True, True, False, False]
    """
    member = place.partition(">.")[2] if place.startswith("<") else place
    return member.isidentifier()


def _is_compared(asked: Sought) -> bool:
    """Is it said by a comparison, or of its truth? A word, whatever came: what isn't data is true as well."""
    return asked.op == "special" and asked.name in COMPARING | SAID_BY_ITSELF


def _arguments(asked: Sought) -> list[Any]:
    if asked.op in ("attribute", "source"):
        return []
    return [*asked.given[0], *(value for _, value in asked.given[1])]


def is_data(value: Any) -> bool:
    """Something that a test can compare by itself; its looks into a tensor are noticed one by one.

    What holds nothing but things of the student's is none: it is compared by what they say.
    """
    if value is None or is_theirs(value) or callable(value):
        return False
    kind = kind_of(value)
    if kind is None or kind.watched:
        return False
    parts = parts_of(value)
    return parts is None or not parts or not all(map(is_theirs, parts))


def _is_tensor(value: Any) -> bool:
    kind = None if is_theirs(value) else kind_of(value)
    return kind is not None and kind.watched
