"""The canonical pictures as other eyes see them: `python -m tools.pictures.eyes FILE.png`.

One row a picture: as it is, without colour, and as somebody with deuteranopia sees it (Machado, Oliveira and Fernandes,
"A Physiologically-based Model for Simulation of Color Vision Deficiency", 2009, severity 1, in linear RGB). To be
looked at: is everything that colour tells told by shape, weight or a word as well?
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
GOLDENS = ROOT / "tests" / "browser" / "goldens"
GAP_PX = 12
SHEET_PX = 480  # the width of one column
DEUTERANOPIA = np.array(
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
)
LUMINANCE = np.array([[0.2126, 0.7152, 0.0722]] * 3)


def seen(image: Image.Image, matrix: np.ndarray) -> Image.Image:
    """The image through a 3×3 matrix of linear RGB.

    >>> seen(Image.new("RGB", (1, 1), (255, 0, 0)), LUMINANCE).getpixel((0, 0))
    (127, 127, 127)
    """
    encoded = np.asarray(image.convert("RGB"), dtype=float) / 255
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    mixed = np.clip(linear @ matrix.T, 0, 1)
    back = np.where(mixed <= 0.0031308, mixed * 12.92, 1.055 * mixed ** (1 / 2.4) - 0.055)
    return Image.fromarray(np.round(back * 255).astype(np.uint8))


def sheet(paths: Sequence[Path]) -> Image.Image:
    """All pictures under each other, three times each. Raises: FileNotFoundError for one that isn't there."""
    rows = []
    for path in paths:
        with Image.open(path) as golden:
            plain = golden.convert("RGB")
        small = plain.resize((SHEET_PX, max(1, round(plain.height * SHEET_PX / plain.width))), Image.Resampling.LANCZOS)
        rows.append([small, seen(small, LUMINANCE), seen(small, DEUTERANOPIA)])
    height = sum(row[0].height + GAP_PX for row in rows) + GAP_PX
    made = Image.new("RGB", (3 * (SHEET_PX + GAP_PX) + GAP_PX, height), "white")
    top = GAP_PX
    for row in rows:
        for k, image in enumerate(row):
            made.paste(image, (GAP_PX + k * (SHEET_PX + GAP_PX), top))
        top += row[0].height + GAP_PX
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Write the sheet of the light goldens."""
    parser = argparse.ArgumentParser(prog="python -m tools.pictures.eyes", description=(__doc__ or "").split(":")[0])
    parser.add_argument("file", metavar="FILE.png", help="the sheet")
    file = parser.parse_args(argv).file
    sheet(sorted(GOLDENS.glob("*_light.png"))).save(file, optimize=True)
    print(f"wrote {file}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
