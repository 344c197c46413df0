import { describe, expect, it } from "vitest";
import { clicked, entriesOf, entryAt, pythonOf, readOff, tagOf, written } from "../../src/answer/entries";
import { emptyDraft, isComplete, pick } from "../../src/state/quiz";
import { question } from "../scene";

const lines = (name: string) => [1, 2, 3].map((n) => [`${name}\t${n}`, `line ${n}`]);
const choices = (pairs: string[][]) => pairs.map(([key = "", label = ""]) => ({ key, label, misconception: "", message: "" }));
const found = question({
  kind: "entries", name: "found", truth: "null",
  choices: choices([...lines("culprit"), ...lines("victim"), ['serves\t"l1"', "l1"], ['serves\t"l2"', "l2"], ["holds\t0", "0"], ["holds\t2", "2"]]),
  targets: [["line:1", "line 1"], ["w0", "line 3"], ["t4", "l2"]],
});
const holds = question({ kind: "entries", name: "holds", truth: "null", choices: choices(["x", "w"].flatMap((n) => [[`${n}\t"gradient"`, "gradient"], [`${n}\t"nothing"`, "nothing"]])), targets: [["t0", "x"], ["t1", "w"]] });
const leaf = question({ kind: "entries", name: "leaf", truth: "null", choices: choices([["A culprit\ttrue", "True"], ["A culprit\tfalse", "False"]]) });
const all = { culprit: "3", victim: "1", serves: '"l2"', holds: "2" };
const STUB = "\n# YOUR CODE HERE\nraise NotImplementedError()";
const NONE = 'found = {"culprit": None, "victim": None, "serves": None, "holds": None}';
const FULL = 'found = {"culprit": 3, "victim": 1, "serves": "l2", "holds": 2}';

describe("clicks", () => {
  it("fill one entry after the other, each with what it may be", () => {
    let draft = pick(found, emptyDraft, "line 3");
    expect(draft.typed).toEqual({ culprit: "3" });
    expect(entryAt(found, draft)).toBe("victim");
    draft = pick(found, pick(found, draft, "line 1"), "l2");
    expect(draft.typed).toEqual({ culprit: "3", victim: "1", serves: '"l2"' });
    expect(tagOf(found, draft, "line 3")).toBe("culprit");
    expect(tagOf(found, draft, "l1")).toBe("");
  });
  it("go to the entry that was touched", () => {
    const draft = clicked(found, { picked: [], typed: { culprit: "3", victim: "1" }, at: "culprit" }, "line 2");
    expect(draft.typed).toEqual({ culprit: "2", victim: "1" });
    expect(clicked(found, { picked: [], typed: {}, at: "holds" }, "l2").typed).toEqual({ serves: '"l2"' });
    expect(clicked(found, emptyDraft, "nobody")).toBe(emptyDraft);
  });
  it("go round the values of the entry that a tensor is", () => {
    const once = clicked(holds, emptyDraft, "w");
    const twice = clicked(holds, once, "w");
    expect([once, twice, clicked(holds, twice, "w")].map(({ typed }) => typed.w)).toEqual(['"gradient"', '"nothing"', ""]);
    expect(tagOf(holds, twice, "w")).toBe("nothing");
  });
  it("are never judged", () => expect(isComplete(found, { picked: [], typed: all })).toBe(false));
});

describe("the text", () => {
  it("is Python", () => {
    expect(entriesOf(leaf).map(({ name }) => name)).toEqual(["A culprit"]);
    expect(pythonOf(found, all)).toBe(FULL);
    expect(pythonOf(found, { serves: '"l1"' })).toBe('found = {"culprit": None, "victim": None, "serves": "l1", "holds": None}');
    expect(pythonOf(leaf, { "A culprit": "false" })).toBe('leaf = {"A culprit": False}');
  });
  it("adds entries to what other pictures ask for", () => {
    const part = { ...found, name: "found |" };
    expect(pythonOf(part, { holds: "2" })).toBe('found |= {"culprit": None, "victim": None, "serves": None, "holds": 2}');
    expect(written('found = {"A": 1, "culprit": None}', part, { culprit: "3" })).toBe('found = {"A": 1, "culprit": 3}');
    expect(written("", part, all)).toBe(FULL);
    expect(readOff(FULL, part)).toEqual(all);
  });
  it("takes the place of the stub", () => expect(written(NONE + STUB, found, all)).toBe(FULL));
  it("changes entries where they stand, and leaves the rest as it is", () => {
    const own = "# my notes: {x}\nfound = {\n    'culprit': None,  # later\n    \"victim\": 1, \"serves\": \"l1\",\n    \"holds\": None,\n}\nprint(1)" ;
    expect(written(own, found, { culprit: "3", serves: '"l2"' })).toBe("# my notes: {x}\nfound = {\n    'culprit': 3,  # later\n    \"victim\": 1, \"serves\": \"l2\",\n    \"holds\": None,\n}\nprint(1)");
    expect(written('leaf = {"B culprit": 4, "A culprit": None}', leaf, { "A culprit": "true" })).toBe('leaf = {"B culprit": 4, "A culprit": True}');
  });
  it("stands behind all that is there where it can't be changed in place", () => {
    expect(written("", found, all)).toBe(FULL);
    expect(written("# nothing yet" + STUB, found, all)).toBe(`# nothing yet\n${FULL}`);
    const called = "found = dict(culprit=1)";
    expect(written(called, found, { culprit: "3", holds: "2" })).toBe(`${called}\nfound["culprit"] = 3\nfound["holds"] = 2`);
    expect(written(`${NONE}\nfound["culprit"] = 1`, found, all)).toBe(FULL);
    expect(written(`${NONE}\nfound.update(culprit=1)`, found, { culprit: "3" })).toBe(`${NONE}\nfound.update(culprit=1)\nfound["culprit"] = 3`);
  });
  it("comes out the same when it's written twice", () => {
    for (const source of ["", NONE + STUB, "found = dict()", `${NONE}\nfound |= {}`]) {
      const once = written(source, found, all);
      expect(written(once, found, all)).toBe(once);
    }
  });
  it("is read again, as far as it's one of the values", () => {
    expect(readOff(FULL, found)).toEqual(all);
    expect(readOff("found = {'culprit': 9, 'serves': 'l2', \"holds\": 2}", found)).toEqual({ serves: '"l2"', holds: "2" });
    expect(readOff(NONE + STUB, found)).toEqual({});
    expect(readOff("", found)).toEqual({});
  });
});
