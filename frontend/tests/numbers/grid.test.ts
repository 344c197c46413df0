import { describe, expect, it } from "vitest";
import { gridOf, heat, index, nextBroken, type Place, walk } from "../../src/numbers/grid";
import { type Sheet, sheetsAt } from "../../src/state/scene";
import { scene } from "../scene";

const counted = (shape: number[], from = shape) => {
  const size = shape.reduce((a, b) => a * b, 1);
  return gridOf({ item: "t0-0", key: "value", since: 0, shape: from, kept: shape, most: `${size - 1}`, numbers: Array.from({ length: size }, (_, k) => `${k}`).join(" ") });
};
const begin: Place = { slice: 0, row: 0, column: 0 };
const go = (grid: ReturnType<typeof gridOf>, keys: string[], from = begin) =>
  keys.reduce((at, key) => walk(grid, at, key.replace("^", ""), key.startsWith("^"), 8)!, from);
const number = (grid: ReturnType<typeof gridOf>, { slice, row, column }: Place) => grid.numbers[(slice * grid.rows + row) * grid.columns + column];

describe("a walk through a tensor's numbers", () => {
  it("goes through rows, columns and slices, and stops at each end", () => {
    const cube = counted([2, 3, 4]);
    expect(number(cube, go(cube, ["ArrowRight", "ArrowDown"]))).toBe("5");
    expect(number(cube, go(cube, ["PageDown", "ArrowRight"]))).toBe("13");
    expect(go(cube, ["ArrowLeft", "ArrowUp", "PageUp"])).toEqual(begin);
    expect(number(cube, go(cube, ["^End"]))).toBe("11");
    expect(number(cube, go(cube, ["PageDown", "PageDown", "^End"]))).toBe("23");
    expect(number(cube, go(cube, ["^End", "Home"]))).toBe("8");
  });
  it("pages through rows where there are no slices", () => {
    const tall = counted([20, 2]);
    expect(number(tall, go(tall, ["PageDown"]))).toBe("16");
    expect(number(tall, go(tall, ["PageDown", "PageDown", "PageDown"]))).toBe("38");
  });
  it("cuts a row into lines, the last of them shorter", () => {
    const row = counted([20]);
    expect([row.rows, row.columns]).toEqual([3, 8]);
    expect(index(row, go(row, ["ArrowDown", "ArrowRight"]))).toBe("[9]");
    expect(index(row, go(row, ["^End"]))).toBe("[19]");
  });
  it("writes the index as Python does", () => {
    const deep = counted([2, 3, 2, 2]);
    expect(index(deep, { slice: 4, row: 1, column: 0 })).toBe("[1, 1, 1, 0]");
  });
  it("leaves other keys to the player", () => {
    expect(walk(counted([2, 2]), begin, "f", false, 8)).toBeUndefined();
  });
  it("finds NaN and infinity, round and round", () => {
    const grid = gridOf({ item: "", key: "", since: 0, shape: [2, 3], kept: [2, 3], most: "2", numbers: "1 nan -2 0 -inf True" });
    const first = nextBroken(grid, begin)!;
    expect(index(grid, first)).toBe("[0, 1]");
    expect(index(grid, nextBroken(grid, first)!)).toBe("[1, 1]");
    expect(index(grid, nextBroken(grid, nextBroken(grid, first)!)!)).toBe("[0, 1]");
    expect(grid.numbers.map((each) => heat(grid, each))).toEqual([0.5, NaN, -1, 0, NaN, 0.5]);
    expect(nextBroken(counted([2, 2]), begin)).toBeUndefined();
  });
  it("shows the newest sheet of each kind", () => {
    const sheet = (key: string, since: number): Sheet => ({ item: "t0-0", key, since, shape: [20], kept: [20], most: "1", numbers: "" });
    const made = scene({ sheets: [sheet("value", 0), sheet(".grad", 2), sheet("value", 3)] });
    const at = (step: number) => sheetsAt(made, "t0-0", step).map(({ key, since }) => [key, since]);
    expect([at(1), at(2), at(3)]).toEqual([[["value", 0]], [["value", 0], [".grad", 2]], [["value", 3], [".grad", 2]]]);
    expect(sheetsAt(scene(), "t0-0", 3)).toEqual([]);
  });
});
