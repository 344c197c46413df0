"""The words for a place, and for what stands or was expected there."""

from __future__ import annotations

from collections.abc import Mapping

NAMED: Mapping[str, str] = {"Tensor": "a tensor", "ndarray": "an array", "NoneType": "nothing", "int": "an int"}


def where(places: tuple[str, ...]) -> str:
    """The words for a place, up to what stands there.

    >>> where(("softplus()",)), where(("<Net>.weight",)), where(("f()[]",)), where(())
    ('softplus returned', 'weight of Net is', 'f returned, inside,', 'the answer gave')
    """
    place = places[0] if places else ""
    inside = ", inside," if place.endswith("[]") else ""
    place = place.rstrip("[]<~!")
    verb = "returned" if place.endswith("()") else "is"
    owner, _, member = place.removesuffix("()").rpartition(">.")
    name = f"{member} of {owner[1:]}" if owner.startswith("<") else place.removesuffix("()")
    return f"{name} {verb}{inside}".replace("()!.", "'s error's ") if name else "the answer gave"


def expected(roles: frozenset[str]) -> str:
    """The words for what the reference answer showed."""
    found = [a(role.removeprefix("data ")) for role in sorted(roles) if role.startswith("data ")]
    found += ["something to call"] * ("call" in roles) + ["an iterator"] * ("iterator" in roles)
    found += ["an object that was asked for"] * ("object" in roles)
    return " or ".join(found) or "data"


def a(name: str) -> str:
    """A name with its article.

    >>> a("Tensor"), a("float"), a("Element"), a("NoneType")
    ('a tensor', 'a float', 'an Element', 'nothing')
    """
    return NAMED.get(name) or f"{'an' if name[:1] in 'AEIOaeio' else 'a'} {name}"
