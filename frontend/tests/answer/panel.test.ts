// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { AnswerCell } from "../../src/answer/cell";
import { plainHost } from "../../src/fix/host";
import { mount } from "../../src/ui/player";
import { question, scene } from "../scene";

const STUB = 'found = {"culprit": None, "holds": None}\n# YOUR CODE HERE\nraise NotImplementedError()';
const choices = [["culprit\t1", "line 1"], ["culprit\t2", "line 2"], ['holds\t"a"', "a"]].map(([key = "", label = ""]) => ({ key, label, misconception: "", message: "" }));
const asked = question({ kind: "entries", name: "found", truth: "null", until_step: 3, choices, targets: [["line:1", "line 1"], ["line:2", "line 2"], ["f1", "line 1"], ["t0", "a"]], veil: "leaves" });

let el: HTMLElement;
let text: string;
const $ = <T extends Element = HTMLElement>(selector: string) => el.querySelector<T>(selector)!;
const cell: AnswerCell = { read: () => text, write: (now) => { text = now; } };
const start = (here: AnswerCell | undefined) => { const host = plainHost(3); mount(el, scene({ question: asked }), { ...host, cell: () => here }); return host; };
const press = (on: Element) => on.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));

beforeEach(() => { el = document.createElement("div"); document.body.append(el); text = STUB; });
afterEach(() => el.remove());

describe("an exercise's picture", () => {
  it("writes what was picked into the answer cell, and nothing before it's told to", () => {
    const host = start(cell);
    const put = $<HTMLButtonElement>(".sg-check");
    expect([put.disabled, put.hidden]).toEqual([true, false]);
    press($(".fn"));
    $(".leaf").dispatchEvent(new MouseEvent("click", { bubbles: true }));
    expect($(".sg-py code").textContent).toBe('found = {"culprit": 1, "holds": "a"}');
    expect(text).toBe(STUB);
    put.click();
    expect(text).toBe('found = {"culprit": 1, "holds": "a"}');
    expect($(".sg-qb [role=status]").textContent).toContain("Written");
    $(".sg-cd li:last-child button").click();
    expect($(".sg-qb [role=status]").textContent, "what stands there isn't this any more").toBe("");
    expect(host.get("answer"), "nothing here judges").toEqual({});
    expect(el.querySelector(".sg-qv, [data-m=right], [data-m=wrong]")).toBeNull();
  });
  it("names beside each part what it was picked for", () => {
    start(cell);
    $(".sg-cd li button").click();
    $(".leaf").dispatchEvent(new MouseEvent("click", { bubbles: true }));
    expect([$(".fn .qn").textContent, $(".leaf .qn").textContent]).toEqual(["culprit", "holds"]);
    expect([...el.querySelectorAll<HTMLElement>(".sg-cd li")].map((line) => line.dataset.e)).toEqual(["culprit", ""]);
    expect($(".fn").getAttribute("aria-pressed")).toBe("true");
  });
  it("begins with what the answer cell says", () => {
    text = "found = {'culprit': 2, 'holds': 'b'}";
    start(cell);
    expect([...el.querySelectorAll("select")].map((each) => each.value)).toEqual(["2", ""]);
  });
  it("has a line to copy where no cell can be reached", () => {
    start(undefined);
    expect($<HTMLButtonElement>(".sg-check").hidden).toBe(true);
    expect($(".sg-py span").textContent).toContain("copied into the answer cell");
    expect([...el.querySelectorAll("button")].map((each) => each.textContent)).toContain("Copy");
  });
  it("shows no way of the gradient while it's open", () => {
    const host = start(cell);
    host.set({ selected: "t0-0" });
    $(".leaf").dispatchEvent(new KeyboardEvent("keydown", { key: "g", bubbles: true }));
    expect($(".sg-svg").classList.contains("foc")).toBe(false);
    $(".leaf").dispatchEvent(new KeyboardEvent("keydown", { key: "f", bubbles: true }));
    expect($(".sg-svg").classList.contains("foc")).toBe(true);
  });
  it("keeps JupyterLab's shortcuts away from its choices", () => {
    start(cell);
    for (const each of el.querySelectorAll(".sg-q :is(select, button)")) expect(each.getAttribute("data-lm-suppress-shortcuts")).toBe("true");
  });
});
