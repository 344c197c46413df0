// @vitest-environment jsdom
import { beforeEach, describe, expect, it } from "vitest";
import { levelInSight, pathTo, readScene, type Scene, search } from "../../src/state/scene";
import { play } from "../../src/standalone";
import { reduce, type State } from "../../src/state/machine";
import { BODY, scene } from "../scene";

const INSIDE =
  '<path class="e" d="M0 0" data-w="i-f1 f2"/><path class="e" d="M0 0" data-w="f2 f3"/>' +
  '<g class="nd ch in" id="s1-i-f1" data-st="n0" data-goto="f1" tabindex="-1" role="button"><title>comes from a</title></g>' +
  '<g class="nd fn" id="s1-f2" data-st="n0" tabindex="-1" role="button"><title>TanhBackward0, Function</title></g>' +
  '<g class="nd fn" id="s1-f3" data-st="n0 e3" tabindex="-1" role="button"><title>AddBackward0, Function</title></g>';
const BOX = '<g class="nd bd" id="s1-m1" data-st="n0" data-open="m1" tabindex="-1" role="button"><title>h.0, open</title></g>';

const HEAD = '<g class="nd bd" id="s1-m1" data-st="n0" data-open="" tabindex="-1" role="button"><title>h.0, close</title></g>';
const SHARED = '<g class="nd fn" id="s1-f9" data-st="n0" transform="translate(0.0 0.0)"><title>SumBackward0, Function</title></g>';

/** A scene with one box: opening it shows its inside among its neighbours, one of which both drawings share. */
const nested = (): Scene => {
  const base = scene();
  const item = (id: string, label: string, level: string) => ({ id, kind: "node", label, born: 0, rows: [], level });
  const frames = base.frames.map((frame, k) => (k === 3 ? { ...frame, on: ["f3"] } : frame));
  return {
    ...base, frames, body: BODY + BOX + "\ue001f9 5.0 6.0\ue001", parts: [["f9", SHARED]],
    items: [...base.items, item("f2", "TanhBackward0", "m1"), item("f3", "AddBackward0", "m1")],
    levels: [{ id: "m1", label: "h.0", parent: "", body: `${BODY}${HEAD}\ue001f9 7.0 8.0\ue001${INSIDE}`, width_px: 100, height_px: 50 }, { id: "m2", label: "attn", parent: "m1", body: "", width_px: 1, height_px: 1 }],
  };
};
const state = (more: Partial<State> = {}): State => ({ step: 0, playing: false, selected: "", answered: false, level: "", ...more });

describe("levels as state", () => {
  it("knows the way from the outside in", () => {
    expect(pathTo(nested(), "m2").map((level) => level.label)).toEqual(["", "h.0", "attn"]);
  });
  it("keeps the step and the level apart", () => {
    const open = reduce(nested(), state({ step: 2, selected: "f1" }), { kind: "open", level: "m1" });
    expect(open).toEqual(state({ step: 2, level: "m1" }));
    expect(reduce(nested(), open, { kind: "by", steps: -1 })).toEqual(state({ step: 1, level: "m1" }));
  });
  it("knows a box again in another pass by its name, and not by its number, which each pass gives anew", () => {
    const level = (id: string, label: string, parent = "") => ({ id, label, parent, body: "", width_px: 1, height_px: 1 });
    const scenes = [[level("m1", "initialisation"), level("m2", "line 3", "m1")], [level("m1", "model"), level("m2", "wte", "m1")], [level("m1", "wpe"), level("m2", "model"), level("m3", "wte", "m2")]].map((levels) => scene({ levels }));
    const data = scene({ frames: scenes.flatMap((each) => each.frames), passes: scenes.map((each, k) => ({ label: `${k}`, first: 4 * k, number: k, scene: each, loss: "" })) });
    const inside = state({ step: 5, level: "m2" });
    expect(reduce(data, inside, { kind: "by", steps: 1 }).level).toBe("m2");
    expect(reduce(data, inside, { kind: "first" }).level).toBe("");
    expect(reduce(data, inside, { kind: "passes", by: 1 }).level).toBe("m3");
    expect(reduce(data, state({ step: 5, level: "m1" }), { kind: "passes", by: 1 }).level).toBe("m2");
  });
  it("opens what has to be in sight", () => {
    expect(levelInSight(nested(), 3)).toBe("m1");
    expect(reduce(nested(), state({ step: 2 }), { kind: "last" }).level).toBe("m1");
    expect(reduce(nested(), state({ step: 1 }), { kind: "by", steps: 1 }).level).toBe("");
  });
  it("finds a part in its level, and escape leads out again", () => {
    const found = reduce(nested(), state(), { kind: "find", id: "f2" });
    expect(found).toEqual(state({ level: "m1", selected: "f2" }));
    expect(reduce(nested(), found, { kind: "find", id: "f1" }).level).toBe("m1"); // f1 is in sight, around the open box
    const deselected = reduce(nested(), found, { kind: "escape" });
    expect(deselected).toEqual(state({ level: "m1" }));
    expect(reduce(nested(), deselected, { kind: "escape" }).level).toBe("");
  });
  it("searches by name, up to a step while what comes later is hidden", () => {
    expect(search(nested(), " tanh", 0).map((item) => item.id)).toEqual(["f2"]);
    expect(search(nested(), "mul", 0)).toEqual([]);
    expect(search(nested(), "mul", 1).map((item) => item.id)).toEqual(["f1"]);
    expect(search(nested(), "  ", 3)).toEqual([]);
  });
});

describe("levels on the page", () => {
  let el: HTMLElement;
  const $ = (selector: string) => el.querySelector<HTMLElement>(selector);
  const click = (selector: string) => $(selector)?.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  beforeEach(() => {
    el = document.createElement("div");
    document.body.replaceChildren(el);
    play(el, nested(), 0);
  });
  it("opens a box by click, and by its crumb leads back", () => {
    expect($("#s1-f2")).toBeNull();
    click("#s1-m1");
    expect($("#s1-f2")).not.toBeNull();
    expect($("#s1-f1")).not.toBeNull();
    expect($(".sg-cr [aria-current]")?.textContent).toBe("h.0");
    click(".sg-cr button");
    expect($("#s1-f2")).toBeNull();
    expect($("#s1-m1")).not.toBeNull();
  });
  it("tells of the box that was opened, until another step is seen", () => {
    const made = nested();
    made.items.push({ id: "m1", kind: "group", label: "h.0", born: 0, level: "", rows: [{ key: "inside", values: [[0, "2 Functions"]] }] });
    made.frames[2]!.on = ["f1"];
    el.replaceChildren();
    play(el, made, 2);
    const told = () => $(".sg-in caption")?.textContent;
    expect(told()).toMatch("MulBackward0");
    click("#s1-f1");
    click("#s1-m1");
    expect(told()).toMatch("h.0");
    $(".sg-tl input")!.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft", bubbles: true }));
    expect(told()).toMatch("MulBackward0");
  });
  it("closes a box by its head, and keeps the step", () => {
    const step = $(".sg-ct")?.textContent;
    click("#s1-m1");
    click("#s1-m1");
    expect($("#s1-f2")).toBeNull();
    expect($(".sg-ct")?.textContent).toBe(step);
  });
  it("opens and closes a box by keyboard, and the focus stays on it", () => {
    const enter = () => $("#s1-m1")?.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
    $("#s1-m1")?.focus();
    enter();
    expect($("#s1-f2")).not.toBeNull();
    expect(document.activeElement).toBe($("#s1-m1"));
    enter();
    expect($("#s1-f2")).toBeNull();
    expect(document.activeElement).toBe($("#s1-m1"));
  });
  it("puts a shared part where each drawing wants it", () => {
    expect($("#s1-f9")?.getAttribute("transform")).toBe("translate(5.0 6.0)");
    click("#s1-m1");
    expect($("#s1-f9")?.getAttribute("transform")).toBe("translate(7.0 8.0)");
  });
  it("a chip leads to what it names", () => {
    click("#s1-m1");
    click("#s1-i-f1");
    expect($("#s1-f1")?.classList.contains("sel")).toBe(true);
  });
  it("shows only the neighbours of what is selected", () => {
    click("#s1-m1");
    click("#s1-f3");
    click(".sg-nr");
    expect($(".sg-svg")?.classList.contains("foc")).toBe(true);
    expect([...el.querySelectorAll(".near")].map((part) => part.id || part.getAttribute("data-w"))).toEqual(["f2 f3", "s1-f2", "s1-f3"]);
    click(".sg-nr");
    expect($(".sg-svg")?.classList.contains("foc")).toBe(false);
  });
  it("says why the ways from a part can't be gone yet", () => {
    const way = () => [$(".sg-nr")?.getAttribute("aria-disabled"), $(".sg-nr")?.title];
    expect(way()).toEqual(["true", "Click a card or a Function first"]);
    click("#s1-f1");
    expect(way()).toEqual(["false", ""]);
  });
  it("jumps from hit to hit by Enter", () => {
    const input = el.querySelector<HTMLInputElement>(".sg-se input")!;
    input.value = "backward";
    const enter = () => input.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
    enter();
    expect($(".sg-fn")?.textContent).toBe("1 / 3");
    expect($("#s1-f2")?.classList.contains("sel")).toBe(true);
    enter();
    expect($("#s1-f3")?.classList.contains("sel")).toBe(true);
    enter(); // what hasn't run yet is found too, and said to come later
    expect($("#s1-f1")?.classList.contains("sel")).toBe(true);
    expect($(".sg-in .later")?.textContent).toBe("MulBackward0 not there yet: step 2");
    enter();
    expect($("#s1-f2")?.classList.contains("sel")).toBe(true);
  });
  it("marks what is searched for while it is typed, in a closed box the box", () => {
    const input = el.querySelector<HTMLInputElement>(".sg-se input")!;
    const typed = (text: string) => {
      input.value = text;
      input.dispatchEvent(new Event("input"));
      return [$(".sg-fn")?.textContent, ...[...el.querySelectorAll(".hit")].map((part) => part.id)];
    };
    expect(typed("tanh")).toEqual(["1 ⏎", "s1-m1"]);
    expect(typed("nothing")).toEqual(["0 / 0"]);
    expect(typed("")).toEqual([""]);
  });
  it("opens the failing level when its step comes", () => {
    const range = el.querySelector<HTMLInputElement>(".sg-tl input")!;
    range.value = "3";
    range.dispatchEvent(new Event("input"));
    expect($("#s1-f3")?.dataset.s).toBe("e");
  });
});

describe("what is no scene", () => {
  it.each([null, undefined, 3, "x", {}, { schema: 0 }, { schema: 2, frames: [] }, { schema: 1, body: "", frames: [] }])("%j is a sentence", (data) => {
    const el = document.createElement("div");
    play(el, data as unknown as Scene);
    expect(el.textContent).toContain("Run its cell again");
  });
  it("a scene whose frames are broken is a sentence too", () => {
    const el = document.createElement("div");
    play(el, { ...nested(), frames: [null] } as unknown as Scene);
    expect(el.textContent).not.toBe("");
  });
  it("an older scene without levels is shown", () => {
    const { levels: _levels, ...older } = scene();
    expect(readScene(older)?.levels).toEqual([]);
    const el = document.createElement("div");
    document.body.replaceChildren(el);
    play(el, older as Scene);
    expect(el.querySelector(".sg-ct")?.textContent).toBe("4 / 4");
  });
});
