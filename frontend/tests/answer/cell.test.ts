import { describe, expect, it } from "vitest";
import { answerCell } from "../../src/answer/cell";

function cell(text: string, nbgrader?: object, more: object = {}) {
  let source = text;
  return { getSource: () => source, setSource: (now: string) => { source = now; }, getMetadata: () => ({ nbgrader, ...more }) };
}
const manager = (...cells: unknown[]) => ({ context: { model: { sharedModel: { cells } } } });
const asks = cell('from seegrad import pick\n\npick(\n    "found",\n    {}, "")');
const answer = () => cell("found = {}", { solution: true, locked: false });
const test = cell("assert found", { solution: false, locked: true });

describe("the answer cell", () => {
  it("is the first one for answers behind the cell that asks", () => {
    const [before, mine, after] = [answer(), answer(), answer()];
    const found = answerCell(manager(before, asks, test, mine, after), "found");
    found?.write("found = 1");
    expect(found?.read()).toBe("found = 1");
    expect([before, mine, after].map((each) => each.getSource())).toEqual(["found = {}", "found = 1", "found = {}"]);
  });
  it("is none that is locked, or that nobody may edit", () => {
    expect(answerCell(manager(asks, cell("", { solution: true, locked: true })), "found")).toBeUndefined();
    expect(answerCell(manager(asks, cell("", { solution: true }, { editable: false })), "found")).toBeUndefined();
    expect(answerCell(manager(asks, test), "found")).toBeUndefined();
  });
  it("isn't looked for where another cell asks", () => expect(answerCell(manager(cell('pick("holds", {}, "")'), answer()), "found")).toBeUndefined());
  it("isn't there in other notebooks than Jupyter's", () => {
    for (const other of [undefined, {}, { context: {} }, { context: { model: { sharedModel: { cells: [{}] } } } }]) expect(answerCell(other, "found")).toBeUndefined();
  });
});
