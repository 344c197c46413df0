import { describe, expect, it } from "vitest";
import { answerOf, emptyDraft, isComplete, isEvidence, judge, labelOf, mistakes, pick, pythonLine, type } from "../src/quiz";
import { question } from "./scene";

const leaves = question({ kind: "leaves", truth: '["a", "b"]', targets: [["t0", "a"], ["t1", "b"], ["t2", "c"]], choices: [{ key: "+c", label: "", misconception: "M01", message: "c has a grad_fn." }] });
const versions = question({ kind: "versions", truth: '{"out": 1, "c": 1}', targets: [["out", "out"], ["c", "c"]], choices: [{ key: "out=0", label: "", misconception: "M05", message: "It is shared." }] });
const culprit = question({ kind: "culprit", truth: "3", targets: [["line:3", "3"], ["w0", "3"], ["line:5", "5"]], choices: [{ key: "5", label: "", misconception: "M04", message: "There it stopped." }] });

describe("a draft", () => {
  it("holds one outcome, several leaves", () => {
    expect(pick(question(), pick(question(), emptyDraft, "raise"), "fine").picked).toEqual(["fine"]);
    const two = pick(leaves, pick(leaves, emptyDraft, "a"), "b");
    expect(two.picked).toEqual(["a", "b"]);
    expect(pick(leaves, two, "a").picked).toEqual(["b"]);
  });
  it("is complete when every version is a whole number", () => {
    const half = type(emptyDraft, "out", "1");
    expect(isComplete(versions, half)).toBe(false);
    expect(isComplete(versions, type(half, "c", "one"))).toBe(false);
    expect(isComplete(versions, type(half, "c", " 1 "))).toBe(true);
    expect(isComplete(question(), emptyDraft)).toBe(false);
  });
  it("becomes an answer that Python reads", () => {
    expect(answerOf(culprit, pick(culprit, emptyDraft, "3"))).toEqual({ culprit: 3 });
    expect(answerOf(leaves, { picked: ["b", "a"], typed: {} })).toEqual({ leaves: ["a", "b"] });
    expect(pythonLine(versions, answerOf(versions, { picked: [], typed: { out: "0", c: "1" } }))).toBe('q1 = {"versions": {"out": 0, "c": 1}}');
    expect(pythonLine(question(), { outcome: "silent" })).toBe('q1 = {"outcome": "silent"}');
  });
});

describe("a verdict", () => {
  it("knows right from wrong", () => {
    expect(judge(question(), { outcome: "silent" })).toEqual({ right: true, message: "Yes.", misconception: "" });
    expect(judge(question(), { outcome: "raise" })).toEqual({ right: false, message: "No. Detach isn't data.", misconception: "M05" });
  });
  it("names each mistake by its key", () => {
    expect(mistakes(leaves, ["c", "a"])).toEqual(["+c", "-b"]);
    expect(mistakes(versions, { out: 0, c: 1 })).toEqual(["out=0"]);
    expect(mistakes(culprit, 5)).toEqual(["5"]);
    expect(judge(culprit, { culprit: 5 }).misconception).toBe("M04");
  });
  it("accepts each of several truths", () => {
    expect(judge(question({ truth: '["raise", "silent"]' }), { outcome: "raise" }).right).toBe(true);
  });
  it("takes an answer to something else as wrong", () => {
    expect(judge(leaves, {}).right).toBe(false);
    expect(judge(versions, { versions: [] as unknown as Record<string, number> }).right).toBe(false);
  });
});

describe("items of the picture", () => {
  it("stand for labels, whichever card of a tensor is clicked", () => {
    expect(labelOf(leaves, "t2-1")).toBe("c");
    expect(labelOf(culprit, "w0")).toBe("3");
    expect(labelOf(culprit, "f9")).toBeUndefined();
  });
  it("are evidence", () => {
    expect(isEvidence(question({ evidence: ["t1"] }), "t1-3")).toBe(true);
    expect(isEvidence(question(), "f2")).toBe(false);
  });
});
