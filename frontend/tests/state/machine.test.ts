import { describe, expect, it } from "vitest";
import { at, lastWord, stateAt } from "../../src/state/scene";
import { lastStep, reduce, type State } from "../../src/state/machine";
import { question, scene } from "../scene";

const state = (more: Partial<State> = {}): State => ({ step: 0, playing: false, selected: "", answered: false, level: "", ...more });
const open = scene({ question: question() });

describe("steps", () => {
  it.each([[2, 2], [-5, 0], [99, 3], [Number.NaN, 0], [1.7, 1]])("go(%d) ends at %d", (to, step) => {
    expect(reduce(scene(), state(), { kind: "go", step: to }).step).toBe(step);
  });
  it("moves by some steps and to both ends", () => {
    expect(reduce(scene(), state({ step: 1 }), { kind: "by", steps: 1 }).step).toBe(2);
    expect(reduce(scene(), state({ step: 0 }), { kind: "by", steps: -1 }).step).toBe(0);
    expect(reduce(scene(), state(), { kind: "last" }).step).toBe(3);
    expect(reduce(scene(), state({ step: 3 }), { kind: "first" }).step).toBe(0);
  });
});

describe("an open question", () => {
  it("hides what follows it, whatever is asked for", () => {
    expect(lastStep(open, false)).toBe(1);
    for (const event of [{ kind: "last" }, { kind: "go", step: 3 }, { kind: "by", steps: 9 }] as const) expect(reduce(open, state(), event).step).toBe(1);
  });
  it("shows the rest once it is answered", () => {
    const after = reduce(open, state({ step: 1, playing: true }), { kind: "answered" });
    expect(after).toEqual(state({ step: 3, answered: true }));
    expect(lastStep(open, true)).toBe(3);
  });
});

describe("playing", () => {
  it("starts over from the end, and stops there", () => {
    const started = reduce(scene(), state({ step: 3 }), { kind: "toggle" });
    expect(started).toEqual(state({ step: 0, playing: true }));
    const almost = reduce(scene(), state({ step: 2, playing: true }), { kind: "tick" });
    expect(almost).toEqual(state({ step: 3, playing: false }));
  });
  it("ignores a late tick", () => {
    expect(reduce(scene(), state({ step: 1 }), { kind: "tick" })).toEqual(state({ step: 1 }));
  });
  it("does nothing where there is one step only", () => {
    const one = scene({ frames: scene().frames.slice(0, 1) });
    expect(reduce(one, state(), { kind: "toggle" }).playing).toBe(false);
  });
  it("ends with escape", () => {
    expect(reduce(scene(), state({ playing: true, selected: "f1" }), { kind: "escape" })).toEqual(state());
  });
});

describe("selecting", () => {
  it("selects, and lets go of what is selected", () => {
    const picked = reduce(scene(), state(), { kind: "select", id: "f1" });
    expect(picked.selected).toBe("f1");
    expect(reduce(scene(), picked, { kind: "select", id: "f1" }).selected).toBe("");
  });
});

describe("timelines", () => {
  it("say what holds at a step", () => {
    expect(at([[0, "0"], [2, "1"]], 1)).toBe("0");
    expect(at([[2, "1"]], 1)).toBeUndefined();
    expect(stateAt("g0 a1 n2", 5)).toBe("n");
  });
  it("keep the last diagnosis in sight", () => {
    expect(lastWord(scene(), 2)).toBe("");
    const longer = scene({ frames: [...scene().frames, { ...scene().frames[2]! }] });
    expect(lastWord(longer, 4)).toBe("Line `2` did it.");
  });
});
