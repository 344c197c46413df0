import { describe, expect, it } from "vitest";
import { marksOf, NONE } from "../../src/state/kinds";
import { answerOf, emptyDraft, isComplete, isEvidence, isPicked, judge, labelOf, mistakes, pick, pythonLine, type } from "../../src/state/quiz";
import { question } from "../scene";

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

const keeps = question({ kind: "keeps", truth: '["a"]', targets: [["t0", "a"], ["t1", "b"]], choices: [{ key: "+b", label: "", misconception: "M02", message: "Not kept." }] });
const saves = question({
  kind: "saves", truth: '{"MulBackward0": ["a", "b"], "AddBackward0": []}', evidence: [],
  targets: [["f0", "MulBackward0"], ["f1", "AddBackward0"], ["t0", "a"], ["t1", "b"], ["t2", "c"]],
  choices: [["-MulBackward0 ", "a"], ["-MulBackward0 ", "b"], ["+AddBackward0 ", "b"], ["+AddBackward0 ", "c"]].map(([at, label = ""]) => ({ key: at + label, label, misconception: "M03", message: "Not all." })),
});
const order = question({
  kind: "order", truth: '["Sum", "Add", "Exp", "Mul"]', targets: [["f0", "Mul"], ["f1", "Exp"], ["f2", "Add"], ["f3", "Sum"], ["f4", "Neg"]],
  choices: ["forward", "Mul<Add", "Exp<Add", "Add<Sum", "youngest", "+Neg"].map((key) => ({ key, label: "", misconception: "", message: `said ${key}` })),
});

describe("what each Function saves", () => {
  const first = pick(saves, emptyDraft, "a");
  it("clicks on tensors are about the Function clicked last, the first one before that", () => {
    expect(first.picked).toEqual(["MulBackward0 a"]);
    const second = pick(saves, pick(saves, first, "AddBackward0"), "b");
    expect(second.picked).toEqual(["MulBackward0 a", "AddBackward0 b"]);
    expect(pick(saves, second, "a")).toEqual(second); // a doesn't stand beside the addition
    expect(pick(saves, second, "MulBackward0 a").picked).toEqual(["AddBackward0 b"]); // a tick in another row
    expect([..."abc"].map((name) => isPicked(saves, second, name))).toEqual([false, true, false]);
  });
  it("becomes an answer that names every Function", () => {
    expect(pythonLine(saves, answerOf(saves, pick(saves, first, NONE)))).toBe('q1 = {"saves": {"MulBackward0": [], "AddBackward0": []}}');
    expect(pythonLine(saves, answerOf(saves, first))).toBe('q1 = {"saves": {"MulBackward0": ["a"], "AddBackward0": []}}');
  });
  it("is judged pair by pair", () => {
    expect(judge(saves, { saves: { MulBackward0: ["b", "a"] } }).right).toBe(true);
    expect(mistakes(saves, { MulBackward0: ["a"], AddBackward0: ["c"], NoBackward0: ["x"] })).toEqual(["-MulBackward0 b", "+AddBackward0 c", "+NoBackward0 x"]);
    expect(judge(saves, { saves: {} })).toEqual({ right: false, message: "No. Not all.", misconception: "M03" });
    expect(mistakes(saves, 3)).toEqual(["-MulBackward0 a", "-MulBackward0 b"]);
  });
  it("marks each pair, and a Function by its pairs", () => {
    expect(marksOf(saves, { saves: { MulBackward0: ["a"], AddBackward0: ["c"] } })).toEqual({
      "MulBackward0 a": "right", "MulBackward0 b": "missed", MulBackward0: "wrong", "AddBackward0 c": "wrong", AddBackward0: "wrong",
    });
    expect(marksOf(saves, { saves: { MulBackward0: ["a", "b"] } })["AddBackward0"]).toBe("right");
  });
});

describe("the order of backward", () => {
  const said = (...names: string[]) => judge(order, { order: names }).message;
  it("keeps the order of the clicks, and takes one back", () => {
    const draft = ["Sum", "Mul", "Add"].reduce((all, name) => pick(order, all, name), emptyDraft);
    expect(answerOf(order, draft)).toEqual({ order: ["Sum", "Mul", "Add"] });
    expect(pick(order, draft, "Mul").picked).toEqual(["Sum", "Add"]);
  });
  it("marks each Function by its place", () => {
    const marked = (...names: string[]) => marksOf(order, { order: names });
    expect(marked("Sum", "Add", "Exp", "Mul")).toEqual({ Sum: "right", Add: "right", Exp: "right", Mul: "right" });
    expect(marked("Sum", "Exp", "Add", "Mul", "Neg")).toEqual({ Sum: "right", Add: "wrong", Exp: "wrong", Mul: "right", Neg: "wrong" });
    expect(marked("Sum", "Add", "Exp").Mul).toBe("missed");
  });
  it("tells the forward order, a pair, and a mere matter of age apart", () => {
    expect(judge(order, { order: ["Sum", "Add", "Exp", "Mul"] }).right).toBe(true);
    expect(said("Mul", "Exp", "Add", "Sum")).toBe("No. said forward");
    expect(said("Sum", "Mul", "Add", "Exp")).toBe("No. said Mul<Add");
    expect(said("Sum", "Add", "Mul", "Exp")).toBe("No. said youngest");
    expect(said("Sum", "Add", "Exp", "Mul", "Neg")).toBe("No. said +Neg");
    expect(mistakes(order, ["Sum"])).toEqual(["-Add", "-Exp", "-Mul"]);
    expect(mistakes(order, ["Sum", "Sum", "Add", "Exp", "Mul"])).toEqual(["youngest"]);
  });
});

describe("what keeps its gradient", () => {
  it("may be nothing, which is then said", () => {
    const none = pick(keeps, pick(keeps, emptyDraft, "b"), NONE);
    expect(none.picked).toEqual([NONE]);
    expect(answerOf(keeps, none)).toEqual({ keeps: [] });
    expect(pick(keeps, none, "b").picked).toEqual(["b"]);
    expect(pick(keeps, pick(keeps, emptyDraft, NONE), NONE).picked).toEqual([]);
  });
  it("takes nothing away for good: who was wrong about none of them has the others back", () => {
    const two = pick(keeps, pick(keeps, emptyDraft, "b"), "a");
    expect(pick(keeps, pick(keeps, two, NONE), NONE).picked).toEqual(["b", "a"]);
    expect(pick(keeps, pick(keeps, pick(keeps, two, NONE), "b"), NONE).picked).toEqual([NONE]);
  });
  it("marks what was taken for what it isn't", () => {
    expect(judge(keeps, { keeps: ["a", "b"] }).misconception).toBe("M02");
    expect(marksOf(keeps, { keeps: ["b"] })).toEqual({ a: "missed", b: "wrong" });
  });
});
