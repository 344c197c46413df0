"""A kernel's messages → a cell's outputs, by nbclient's own rules: bounded, and equal to those of stock nbgrader."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from json.encoder import encode_basestring_ascii
from typing import Any

from nbclient.client import NotebookClient
from nbclient.exceptions import CellExecutionComplete
from nbformat import NotebookNode

from nbjudge.wire import Packet

KINDS = (
    *("stream", "display_data", "update_display_data", "execute_result", "error", "clear_output"),
    *("comm_open", "comm_msg", "comm_close"),
)
CUT = "\n[The output is longer than {limit} and was cut here.]\n"
MESSAGE_BYTES = 200  # what even an empty message counts
MESSAGES = 10_000  # of a cell, however small each of them is
NAME_CHARS = 1000  # of an error's name; and of its words, where no more is shown
CELLS = 2  # a notebook may put out as much as so many cells


class Outputs:
    """Collects what cells put out. Whatever a packet says that isn't a Jupyter message is dropped."""

    def __init__(self, notebook: NotebookNode, output_bytes: int) -> None:
        self.notebook = notebook
        self._limit_bytes = output_bytes
        self._left_bytes, self._left_messages = CELLS * output_bytes, CELLS * MESSAGES  # for the whole notebook
        self._used_bytes = self._messages = 0
        self._cut = False
        self._kinds: tuple[str, ...] = KINDS
        self._client = NotebookClient(notebook)
        self._client.log = logging.getLogger("nbjudge.grading.outputs")
        self._client.reset_execution_trackers()

    def begin(self, cell: NotebookNode, *, streams_only: bool = False) -> None:
        """The next messages belong to this cell; of a test cell's only what was printed is shown.

        What stands before a test cell isn't changed after it: it would say what the test has asked.
        """
        self._kinds = KINDS[:1] if streams_only else KINDS
        if streams_only:
            self._client._display_id_map.clear()
        cell.outputs = []
        self._client.clear_before_next_output = False
        self._left_bytes -= self._used_bytes
        self._left_messages -= self._messages
        self._used_bytes, self._messages, self._cut = 0, 0, False

    def add(self, packet: Packet, cell: NotebookNode, index: int) -> None:
        """Take one message in; past the bound one sentence says so, and the rest is dropped."""
        kind, content = packet.header.get("msg_type"), packet.header.get("content")
        if kind not in self._kinds or type(content) is not dict or self._cut:
            return
        times = self._written_by(kind, content)
        size_bytes = times * (MESSAGE_BYTES + len(packet.body) + _size(content))
        self._used_bytes += size_bytes
        self._messages += times
        most_bytes = min(self._limit_bytes, self._left_bytes)
        if self._used_bytes > most_bytes or self._messages > min(MESSAGES, self._left_messages):
            self._cut = True
            room_bytes = most_bytes - self._used_bytes + size_bytes
            kind, content = "stream", {"name": "stdout", "text": self._last_words(content, room_bytes)}
            self._used_bytes, self._messages = min(self._used_bytes, most_bytes), min(self._messages, MESSAGES)
        message = {
            "msg_type": kind,
            "header": {"msg_type": kind},
            "parent_header": {},
            "metadata": _mapping(packet.header.get("metadata")),
            "content": content,
            "buffers": _parts(packet),
        }
        self._process(message, cell, index)

    def _written_by(self, kind: str, content: Mapping[str, Any]) -> int:
        """How many outputs a message writes: all those that are displayed under its name."""
        transient = content.get("transient")
        name = transient.get("display_id") if isinstance(transient, dict) else None
        places = self._client._display_id_map.get(name, {}) if isinstance(name, str) else {}
        return max(1, sum(map(len, places.values())) + (kind != "update_display_data"))

    def _process(self, message: dict[str, Any], cell: NotebookNode, index: int) -> None:
        before = len(cell.outputs)
        try:
            self._client.process_message(message, cell, index)
        except CellExecutionComplete:
            return
        except Exception:  # a forged message is dropped, whatever it breaks
            del cell.outputs[before:]

    def _last_words(self, content: Mapping[str, Any], room_bytes: int) -> str:
        said = content.get("text")
        head = said.encode()[: max(0, room_bytes)].decode("utf-8", "ignore") if isinstance(said, str) else ""
        return head + CUT.format(limit=_readable(self._limit_bytes))

    def finish(self, cell: NotebookNode, reply: Mapping[str, Any]) -> None:
        """As nbgrader does after a cell: an error that was hidden is shown; pieces of streams are joined."""
        if reply.get("status") == "error":
            name, value = str(reply.get("ename"))[:NAME_CHARS], str(reply.get("evalue"))
            if not any(output.output_type == "error" and output.get("ename") == name for output in cell.outputs):
                shown = error_output(name, value, _lines(reply.get("traceback")))
                said = {key: shown[key] for key in ("ename", "evalue", "traceback")}
                if self._cut:
                    cell.outputs.append(error_output(name, value[:NAME_CHARS], []))
                else:  # counted as any other
                    self.add(Packet({"msg_type": "error", "content": said}, b""), cell, 0)
        cell.outputs = joined(cell.outputs)

    def finish_notebook(self) -> None:
        """Keep the widgets' state, as nbclient does."""
        self._client.set_widgets_metadata()


def error_output(name: str, value: str, lines: list[str]) -> NotebookNode:
    """An error as a notebook keeps it."""
    shown = lines or ["ERROR: An error occurred while showtraceback was disabled"]
    return _node(output_type="error", ename=name, evalue=value, traceback=shown)


def result_output(text: str, count: int) -> NotebookNode:
    """A last expression's value as a notebook keeps it."""
    return _node(output_type="execute_result", data={"text/plain": text}, metadata={}, execution_count=count)


def _node(**fields: Any) -> NotebookNode:
    return NotebookNode(**fields)  # type: ignore[no-untyped-call]  # nbformat has no types


def joined(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Pieces of one stream that follow each other as one: where they were cut is a matter of timing."""
    kept: list[NotebookNode] = []
    pieces: list[list[str]] = []  # of each output that is kept; joined once, since there may be thousands
    for output in outputs:
        last = kept[-1] if kept else None
        if last is not None and output.output_type == last.output_type == "stream" and output.name == last.name:
            pieces[-1].append(output.text)
            continue
        kept.append(output)
        pieces.append([output.text] if output.output_type == "stream" else [])
    for output, texts in zip(kept, pieces, strict=True):
        if texts:
            output.text = "".join(texts)
    return kept


def _size(tree: Any) -> int:
    """About how many bytes a message takes as JSON, controls and other letters than English written out."""
    total, stack = 0, [tree]
    while stack:
        item = stack.pop()
        kind = type(item)  # JSON's own, each of them
        if kind is str:
            total += len(encode_basestring_ascii(item))
            continue
        total += 8
        if kind is dict:
            stack.extend(item)
            stack.extend(item.values())
        elif kind is list:
            stack.extend(item)
    return total


def _parts(packet: Packet) -> list[bytes]:
    sizes = packet.header.get("buffers")
    parts, at = [], 0
    for size in sizes if isinstance(sizes, list) else []:
        if type(size) is not int or not 0 <= size <= len(packet.body) - at:
            return []
        parts.append(packet.body[at : at + size])
        at += size
    return parts


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _lines(value: Any) -> list[str]:
    return [str(line) for line in value] if isinstance(value, list) else []


def _readable(size_bytes: int) -> str:
    return f"{size_bytes >> 20} MB" if size_bytes >= 1 << 20 else f"{size_bytes >> 10} kB"
