"""Packets between processes: a bounded JSON header and raw bytes. What isn't known is rejected, nothing is unpickled.

::

    4 bytes   length of the header, big-endian
    4 bytes   length of the body, big-endian
    …         header: one JSON object in UTF-8
    …         body: raw bytes, which the header points into
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` makes enums of its numbers, four times a packet
import json
import math
import os
import signal
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from nbjudge.errors import WireError

HEADER_BYTES = 16 << 20
BODY_BYTES = 256 << 20
DEPTH = 128
NAME_CHARS = 200
CONTAINERS = 1 << 20
PIECE_BYTES = 1 << 16
_INTERRUPT = frozenset({signal.SIGINT})
_LENGTHS = struct.Struct(">II")


class PipeEnd(EOFError):
    """The other process has gone. An EOFError that it tells of, as an answer may raise one, is none of these."""


@dataclass(frozen=True, slots=True)
class Packet:
    """One message: what it says, and the bytes that it refers to."""

    header: Mapping[str, Any]
    body: bytes = b""


def pack(header: Mapping[str, Any], body: bytes = b"") -> bytes:
    """One packet as bytes; lone surrogates become question marks.

    Raises:
        WireError: the packet is larger than what the other side accepts, or holds what JSON can't say.

    >>> unpack(pack({"op": "call"}, b"12")).body
    b'12'
    """
    try:
        text = _WRITER.encode(header).encode("utf-8", "replace")
    except (ValueError, TypeError, RecursionError) as error:
        raise WireError(f"This can't be sent: {error}.") from None
    _check_lengths(len(text), len(body))
    _check_parts(text)
    return _LENGTHS.pack(len(text), len(body)) + text + body


def unpack(data: bytes) -> Packet:
    """The one packet that `data` holds, nothing before or after it.

    Raises:
        WireError: it isn't exactly one packet of ours.
    """
    if len(data) < _LENGTHS.size:
        raise WireError("A frame is shorter than its own lengths.")
    header_bytes, body_bytes = _LENGTHS.unpack_from(data)
    _check_lengths(header_bytes, body_bytes)
    if len(data) != _LENGTHS.size + header_bytes + body_bytes:
        raise WireError("A frame doesn't have the length that it states.")
    start = _LENGTHS.size
    return Packet(parse_header(data[start : start + header_bytes]), data[start + header_bytes :])


def parse_header(data: bytes) -> dict[str, Any]:
    """A JSON object, checked: UTF-8, no NaN, not too deep, no name twice.

    Raises:
        WireError: it is anything else.
    """
    parts = _check_parts(data)
    try:
        header = _READER.decode(data.decode("utf-8"))
    except WireError:
        raise
    except (ValueError, RecursionError, MemoryError) as error:
        raise WireError(f"A header isn't JSON: {type(error).__name__}.") from None
    if type(header) is not dict:
        raise WireError("A header isn't a JSON object.")
    if parts > DEPTH or b"\\u" in data:  # else it can be neither too deep nor hold half a character
        _check_tree(header)
    return header


def _check_parts(text: bytes) -> int:
    """How many lists and objects a header may hold, at most: said before it is sent, too."""
    parts = text.count(b"[") + text.count(b"{")
    if parts > CONTAINERS:
        raise WireError("A header has too many parts.")
    return parts


class PacketReader:
    """Puts packets together from pieces, as they come from a socket; never holds more than one packet's bound.

    >>> reader = PacketReader()
    >>> reader.feed(pack({"op": "hello"})[:5])
    >>> list(reader.packets())
    []
    >>> reader.feed(pack({"op": "hello"})[5:])
    >>> [packet.header["op"] for packet in reader.packets()]
    ['hello']
    """

    def __init__(self, header_bytes: int = HEADER_BYTES, body_bytes: int = BODY_BYTES) -> None:
        self._data = bytearray()
        self._bounds = (header_bytes, body_bytes)

    def feed(self, data: bytes) -> None:
        """Add what was read."""
        self._data += data

    def packets(self) -> Iterator[Packet]:
        """Every packet that is complete; raises WireError at the first that isn't ours."""
        while len(self._data) >= _LENGTHS.size:
            header_bytes, body_bytes = _LENGTHS.unpack_from(self._data)
            _check_lengths(header_bytes, body_bytes, *self._bounds)
            end = _LENGTHS.size + header_bytes + body_bytes
            if len(self._data) < end:
                return
            data = bytes(self._data[:end])
            del self._data[:end]
            yield unpack(data)


class Pipe:
    """One end of a stream between two processes; reads and writes whole packets and waits for them.

    Raises:
        PipeEnd: the other side has gone.
        WireError: the other side sent something that isn't a packet.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def send(self, header: Mapping[str, Any], body: bytes = b"") -> None:
        """Write one packet, all of it: an interrupt waits until it is out."""
        rest = memoryview(pack(header, body))
        before = _signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPT)  # half a packet would make nonsense of the rest
        try:
            while rest:
                rest = rest[os.write(self.fd, rest) :]
        except (BrokenPipeError, ConnectionResetError):
            raise PipeEnd("the other process has gone") from None
        finally:
            _signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def receive(self) -> Packet:
        """Read one packet, all of it."""
        first = self._piece(_LENGTHS.size)  # here an interrupt may come; once a packet has begun it is read to its end
        before = _signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPT)
        try:
            header_bytes, body_bytes = _LENGTHS.unpack(first + self._read(_LENGTHS.size - len(first)))
            _check_lengths(header_bytes, body_bytes)
            header, body = self._read(header_bytes), self._read(body_bytes)
        finally:
            _signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return Packet(parse_header(header), body)

    def _read(self, size_bytes: int) -> bytes:
        pieces = []
        while size_bytes:
            pieces.append(self._piece(min(1 << 20, size_bytes)))
            size_bytes -= len(pieces[-1])
        return b"".join(pieces)

    def _piece(self, most_bytes: int) -> bytes:
        try:
            piece = os.read(self.fd, most_bytes)
        except ConnectionResetError:
            piece = b""
        if not piece:
            raise PipeEnd("the other process has gone")
        return piece


def whole(tree: Mapping[str, Any], key: str, low: int = 0, high: int = 1 << 53) -> int:
    """The whole number that `tree` has under `key`, within bounds.

    Raises:
        WireError: it isn't one.

    >>> whole({"id": 3}, "id")
    3
    """
    number = tree.get(key)
    if type(number) is not int or not low <= number <= high:
        raise WireError(f"{key!r} isn't a whole number from {low} to {high}.")
    return number


def text(tree: Mapping[str, Any], key: str, chars: int = NAME_CHARS) -> str:
    """The text that `tree` has under `key`, at most `chars` long; WireError otherwise."""
    found = tree.get(key)
    if type(found) is not str or len(found) > chars:
        raise WireError(f"{key!r} isn't a text of at most {chars} characters.")
    return found


def listed(tree: Mapping[str, Any], key: str, length: int = HEADER_BYTES) -> list[Any]:
    """The list that `tree` has under `key`, at most `length` long, or as a header is; WireError otherwise."""
    found = tree.get(key)
    if type(found) is not list or len(found) > length:
        raise WireError(f"{key!r} isn't a list of at most {length} items.")
    return found


def _reject(constant: str) -> NoReturn:
    raise WireError(f"A header holds {constant}, which isn't JSON.")


def _finite(said: str) -> float:
    number = float(said)
    if not math.isfinite(number):
        raise WireError("A header holds a number that is too large.")
    return number


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    tree = dict(pairs)
    if len(tree) != len(pairs):
        raise WireError("A header says one name twice.")
    return tree


_WRITER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)  # `json.dumps` makes one for each packet
_READER = json.JSONDecoder(parse_constant=_reject, parse_float=_finite, object_pairs_hook=_no_name_twice)


def _check_lengths(header: int, body: int, header_bytes: int = HEADER_BYTES, body_bytes: int = BODY_BYTES) -> None:
    if header > header_bytes or body > body_bytes:
        raise WireError(f"A frame is too large: a header has at most {header_bytes} bytes, a body {body_bytes}.")


def _check_tree(tree: Any) -> None:
    """Walk it level by level: depth, texts that UTF-8 can say."""
    level, depth = [tree], 0
    while level:
        if depth > DEPTH:
            raise WireError(f"A header is nested deeper than {DEPTH} levels.")
        below: list[Any] = []
        for item in level:
            if type(item) is dict:
                below.extend(item)
                below.extend(item.values())
            elif type(item) is list:
                below.extend(item)
            else:
                _check_leaf(item)
        level, depth = below, depth + 1


def _check_leaf(item: Any) -> None:
    if type(item) is str and not item.isascii():
        try:
            item.encode("utf-8")
        except UnicodeEncodeError:
            raise WireError("A header holds half a character.") from None
