"""Archives with members outside, and one that is a thousand times larger inside."""

from __future__ import annotations

import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any


def hand_in(folder: Path, name: str, book: Any) -> None:
    (folder / f"{name}.ipynb").write_text(json.dumps(book))
    with zipfile.ZipFile(folder / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(50_000_000))
        archive.writestr("../../left_behind", "x")
        archive.writestr("/tmp/left_behind", "x")
    with tarfile.open(folder / "links.tar.gz", "w:gz") as archive:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
