"""Text with the classes by which formgrader gives points and draws over the page, and pictures as data in it."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any


def hand_in(folder: Path, name: str, book: Any) -> None:
    nested = "<g>" + "".join(f"<g id='a{n + 1}'>" + f"<use href='#a{n}'/>" * 10 + "</g>" for n in range(9)) + "</g>"
    drawn = base64.b64encode(f"<svg>{nested}<use href='#a9'/></svg>".encode()).decode()
    texts = (
        "<div class='full-credit' id='essay'>In my essay I argue</div>",
        "<div class='modal-backdrop in affix navbar-fixed-top'>Your session has ended.</div>",
        f"<img src='data:image/svg+xml;base64,{drawn}'>",
    )
    for number, text in enumerate(texts):
        book["cells"].append({"cell_type": "markdown", "id": f"c{number}", "metadata": {}, "source": text})
    source = f"from IPython.display import HTML, display\nfor text in {texts!r}: display(HTML(text))"
    code = {"cell_type": "code", "id": "c9", "metadata": {}, "source": source, "outputs": [], "execution_count": None}
    book["cells"].append(code)
    (folder / f"{name}.ipynb").write_text(json.dumps(book))
