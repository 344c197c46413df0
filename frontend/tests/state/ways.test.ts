import { describe, expect, it } from "vitest";

import { type Line, way } from "../../src/state/ways";

const LINES: Line[] = [["a", "mul"], ["b", "mul"], ["mul", "c"], ["c", "sin"], ["c", "add"], ["sin", "d"], ["d", "add"], ["add", "loss"], ["c", "unused"]];

describe("the gradient's way", () => {
  it("holds both branches to a leaf, and nothing that lies beside them", () => {
    expect([...way(LINES, "loss", "a")].sort()).toEqual(["a", "add", "c", "d", "loss", "mul", "sin"]);
  });
  it("leads from the loss to all its leaves", () => {
    expect([...way(LINES, "loss", "loss")].sort()).toEqual(["a", "add", "b", "c", "d", "loss", "mul", "sin"]);
  });
  it("is the part alone where no gradient comes", () => {
    expect([...way(LINES, "loss", "unused")]).toEqual(["unused"]);
    expect([...way([], "loss", "a")]).toEqual(["a"]);
  });
});
