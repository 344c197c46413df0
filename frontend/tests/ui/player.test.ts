// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Question, Scene } from "../../src/state/scene";
import { alone, play } from "../../src/standalone";
import { reachable } from "../../src/ui/dom";
import entry from "../../src/widget";
import { BODY, question, scene } from "../scene";

let el: HTMLElement;
const $ = <T extends Element = HTMLElement>(selector: string) => el.querySelector<T>(selector)!;
const key = (target: Element, name: string) => target.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
const start = (made: Scene, step?: number) => play(el, made, step);

beforeEach(() => { el = document.createElement("div"); document.body.append(el); });
afterEach(() => { el.remove(); vi.useRealTimers(); });

describe("the player", () => {
  it("flips states and visibility", () => {
    start(scene(), 0);
    expect($(".fn").dataset.s).toBe("g");
    expect($("path.e").classList.contains("ghost")).toBe(true);
    key($(".sg-tl input"), "End");
    expect($(".fn").dataset.s).toBe("w");
    expect($(".clash").classList.contains("ghost")).toBe(false);
    expect($(".sg-ct").textContent).toBe("4 / 4");
  });
  it("steps by arrows, Home, End; keeps other keys to the page", () => {
    start(scene(), 0);
    const range = $(".sg-tl input");
    expect(key(range, "ArrowRight")).toBe(false);
    expect($(".sg-ct").textContent).toBe("2 / 4");
    key(range, "Home");
    expect($(".sg-ct").textContent).toBe("1 / 4");
    expect(key(range, "b")).toBe(true);
  });
  it("has the keys of a page that is about one program, but for what is typed and what is the browser's", () => {
    const typed = document.createElement("input");
    document.body.append(typed);
    const done = alone(el, scene());
    const told = () => $(".sg-ct").textContent;
    key(document.body, "Home");
    expect(key(document.body, "ArrowRight")).toBe(false);
    expect(told()).toBe("2 / 4");
    expect(key(typed, "ArrowRight")).toBe(true);
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", altKey: true, bubbles: true }));
    expect(told()).toBe("2 / 4");
    done();
    typed.remove();
    expect(key(document.body, "ArrowRight")).toBe(true);
  });
  it("tells what goes over a line that is clicked, or near it, until something else is asked for", () => {
    const line = '<path class="e" d="M0 0" data-w="t0-0 f1" data-a="0" data-t="Forward: a.&#10;+2"/>';
    start(scene({ body: line + BODY }), 1);
    const told = () => [...el.querySelectorAll(".sg-in > *")].map((each) => each.textContent);
    const before = told();
    document.elementsFromPoint = (x) => (Math.abs(x - 50) < 3 ? [$(".e.sel, [data-t]")] : []);
    const click = (clientX: number) => $("svg.sg-svg").dispatchEvent(new MouseEvent("click", { bubbles: true, clientX, clientY: 9 }));
    click(54);
    expect(told()).toEqual(["b is computed.", "Forward: a.", "+2"]);
    expect($("[data-t]").classList.contains("sel")).toBe(true);
    click(90);
    expect(told()).toEqual(before);
    click(50);
    $(".leaf").dispatchEvent(new MouseEvent("click", { bubbles: true }));
    expect([told()[1], $("[data-t]").classList.contains("sel")]).toEqual([expect.stringMatching("leaf"), false]);
  });
  it("says how to walk on such a page, until somebody does", () => {
    const line = document.createElement("p");
    line.id = "walk";
    el.before(line);
    const done = alone(el, scene({ lang: "zh_CN" }));
    expect([line.textContent, line.style.visibility]).toEqual([expect.stringMatching("→.*下一步"), ""]);
    key($(".sg-tl input"), "ArrowLeft");
    expect([line.textContent, line.style.visibility]).toEqual([expect.stringMatching("→"), "hidden"]);
    done();
    line.remove();
  });
  it("gives the Tab key to what a step is about, until another part has the focus", () => {
    start(scene(), 3);
    const stops = () => [...el.querySelectorAll(".nd[tabindex='0']")];
    expect(stops()).toEqual([$(".fn")]);
    $(".leaf").focus();
    key($(".leaf"), "f");
    expect(stops()).toEqual([$(".leaf")]);
  });
  it("keeps the focus, whatever becomes of what had it", () => {
    const made = scene();
    const done = start(made, 1);
    const previous = $("[aria-label^=Previous]");
    previous.focus();
    previous.click();
    expect([document.activeElement, previous.getAttribute("aria-disabled")]).toEqual([previous, "true"]);
    const inside = document.createElement("button");
    $(".sg-in").append(inside);
    inside.focus();
    key(inside, "ArrowRight"); // the inspector is written anew
    expect(document.activeElement).toBe($(".sg"));
    expect(key($(".sg"), "ArrowRight")).toBe(false);
    done();
  });
  it("steps by the same keys wherever the focus is in the picture, which isn't lost to a picture that fits", () => {
    start(scene(), 1);
    const box = $(".sg-cv");
    box.tabIndex = 0;
    box.focus();
    expect(key(box, "ArrowRight")).toBe(false);
    expect([$(".sg-ct").textContent, document.activeElement]).toEqual(["3 / 4", box]);
  });
  it("gives the Tab key to a box that scrolls, unless something in it has it", () => {
    const box = document.createElement("div");
    Object.defineProperty(box, "scrollWidth", { value: 9 });
    reachable(box);
    expect(box.tabIndex).toBe(0);
    box.innerHTML = '<i tabindex="0"></i>';
    reachable(box);
    expect(box.tabIndex).toBe(-1);
  });
  it("puts the choice of a file away again: by Escape, by a press elsewhere, and never by one on itself", () => {
    start(scene());
    const [menu, choice] = [$("[aria-label^='Save']"), $(".sg-sv")];
    menu.click();
    $(".sg-sv button").dispatchEvent(new Event("pointerdown", { bubbles: true, composed: true }));
    expect(choice.hidden).toBe(false);
    key($(".sg-sv button"), "Escape");
    expect([choice.hidden, document.activeElement]).toEqual([true, menu]);
    menu.click();
    $(".sg-cv").dispatchEvent(new Event("pointerdown", { bubbles: true, composed: true }));
    expect([choice.hidden, menu.getAttribute("aria-expanded")]).toEqual([true, "false"]);
  });
  it("draws one event once, whatever the host tells of it", () => {
    start(scene(), 0);
    const drawn = vi.spyOn($(".sg-in"), "replaceChildren");
    key($(".sg-tl input"), "ArrowRight");
    expect(drawn).toHaveBeenCalledTimes(1);
  });
  it("marks the line that did the damage from then on", () => {
    const made = scene();
    made.frames[2] = { ...made.frames[2]!, severity: "error", diagnosis: "Line `1` did it.", culprit: 0 };
    made.frames[3] = { ...made.frames[3]!, severity: null, diagnosis: "" };
    start(made, 1);
    const bad = () => [...el.querySelectorAll(".sg-cd .bad")].map((line) => line.textContent);
    expect(bad()).toEqual([]);
    key($(".sg-tl input"), "ArrowRight");
    expect(bad()).toEqual(["b = a * 2"]);
    key($(".sg-tl input"), "End");
    expect(bad()).toEqual(["b = a * 2"]);
  });
  it("puts the legend beside the picture, each entry from its step on", () => {
    const entry = (sign: string, since: number) => `<g class="lg-${sign}" data-a="${since}"><rect class="bx"/><text class="lg">${sign} words</text></g>`;
    start(scene({ body: `${BODY}<g class="legend">${entry("leaf", 0)}${entry("wrong", 3)}</g>` }), 0);
    expect(el.querySelector(".legend")).toBeNull();
    expect([...el.querySelectorAll(".sg-lg span")].map((each) => [each.textContent, each.classList.contains("ghost")])).toEqual([["leaf words", false], ["wrong words", true]]);
    key($(".sg-tl input"), "End");
    expect(el.querySelector(".sg-lg .ghost")).toBeNull();
    expect($(".sg-lg svg").getAttribute("aria-hidden")).toBe("true");
  });
  it("keeps JupyterLab's shortcuts away from everything that takes the focus", () => {
    start(scene({ question: question({ kind: "culprit", truth: "2", targets: [["line:2", "2"]] }) }));
    const focusable = [...el.querySelectorAll("button,input,[tabindex]")];
    expect(focusable.length).toBeGreaterThan(8);
    for (const element of focusable) expect(element.getAttribute("data-lm-suppress-shortcuts")).toBe("true");
  });
  it("says each step to a screen reader", () => {
    start(scene(), 3);
    expect($(".sg-tl input").getAttribute("aria-valuetext")).toBe("4 of 4, Wrong: b = a * 2");
    expect($(".sg-sr").textContent).toContain("Mul runs.");
  });
  it("selects by click and by Enter, and lets go with Escape", () => {
    start(scene(), 1);
    $(".leaf").dispatchEvent(new MouseEvent("click", { bubbles: true }));
    expect($(".leaf").classList.contains("sel")).toBe(true);
    expect($(".sg-in caption").textContent).toContain("a");
    key($(".leaf"), "Escape");
    expect(el.querySelector(".sel")).toBeNull();
    key($(".fn"), "Enter");
    expect($(".fn").classList.contains("sel")).toBe(true);
  });
  it("keeps the focus at an Escape that has nothing to let go of, so that the arrows go on", () => {
    start(scene(), 1);
    $(".leaf").focus();
    for (const name of ["Enter", "Escape", "Escape", "Escape"]) key($(".leaf"), name);
    expect(document.activeElement).toBe($(".leaf"));
    key(document.activeElement as Element, "ArrowRight");
    expect($(".sg-tl input").getAttribute("aria-valuetext")).toContain("3 of");
  });
  it("leaves Enter with Shift to the notebook, on a part too", () => {
    start(scene(), 1);
    const pressed = new KeyboardEvent("keydown", { key: "Enter", shiftKey: true, bubbles: true, cancelable: true });
    $(".fn").dispatchEvent(pressed);
    expect([pressed.defaultPrevented, $(".fn").classList.contains("sel")]).toEqual([false, false]);
  });
  it("walks over the parts that are there", () => {
    start(scene(), 0);
    $(".leaf").focus();
    key($(".leaf"), "ArrowDown");
    expect(document.activeElement).toBe($(".leaf"));
    key($(".leaf"), "ArrowRight");
    key($(".leaf"), "ArrowDown");
    expect(document.activeElement).toBe($(".fn"));
  });
  it("plays and stops at the end", () => {
    vi.useFakeTimers();
    start(scene(), 0);
    $<HTMLButtonElement>(".sg-bar button:nth-child(3)").click();
    vi.advanceTimersByTime(1400 * 2);
    expect($(".sg-ct").textContent).toBe("3 / 4");
    vi.advanceTimersByTime(1400 * 9);
    expect($(".sg-ct").textContent).toBe("4 / 4");
    expect($(".sg-bar button:nth-child(3)").getAttribute("aria-label")).toContain("Play");
  });
  it("follows the page between light and dark", async () => {
    start(scene(), 0);
    expect($(".sg").dataset.theme).toBe("light");
    document.body.style.backgroundColor = "rgb(10, 10, 10)";
    await vi.waitFor(() => expect($(".sg").dataset.theme).toBe("dark"));
    document.body.style.backgroundColor = "";
  });
  it("leaves nothing behind", () => {
    start(scene(), 0)();
    expect(el.children.length).toBe(0);
  });
});

describe("a question", () => {
  it("locks the rest until the answer is committed", () => {
    start(scene({ question: question() }));
    const check = $<HTMLButtonElement>(".sg-check");
    check.click();
    expect($(".sg-qv[role=status]").textContent).toBe("Choose an answer first.");
    expect($(".sg-ct").textContent).toBe("2 / ?");
    key($(".sg-tl input"), "End");
    expect($(".fn").dataset.s).toBe("a");
    expect($(".clash").classList.contains("ghost")).toBe(true);
    $<HTMLInputElement>("input[value=raise]").click();
    expect(el.querySelector(".sg-qv p")).toBeNull();
    check.click();
    expect($(".sg-qv .wrong").textContent).toMatch(/^✗ Not right\. \S.*Detach isn't data\./);
    expect(document.activeElement).toBe($(".sg")); // the button is hidden now: else the page would have the keys
    expect($(".sg-py code").textContent).toBe('q1 = {"outcome": "raise"}');
    expect($(".sg-ct").textContent).toBe("4 / 4");
    expect($(".fn").classList.contains("evidence")).toBe(true);
  });
  it("asks for a choice where nothing is chosen, and gives nothing away, whatever it asks", () => {
    const targets: [string, string][] = [["t0", "a"], ["f1", "Mul"]];
    const truths = { outcome: '"silent"', culprit: "2", next: '"Mul"', gradient: '"a"', leaves: "[]", keeps: "[]", order: '["Mul"]', saves: '{"Mul": []}', versions: '{"a": 0}' };
    const nothing: Record<string, Question["veil"]> = { leaves: "leaves", keeps: "keeps", saves: "saves" };
    for (const lang of ["en", "zh_CN"]) for (const [kind, truth] of Object.entries(truths)) {
      const end = start(scene({ lang, question: question({ kind, truth, targets, veil: nothing[kind] ?? "" }) }));
      const before = el.querySelector(".sg-pic")!.outerHTML;
      $<HTMLButtonElement>(".sg-check").click();
      key($(".sg-qc input, .sg-check"), "Enter");
      const said = $(".sg-qv").textContent!;
      expect(said).toMatch(lang === "en" ? /^(Choose an answer|Fill in every version) first/ : /^请先/);
      expect($(".sg-qv").getAttribute("role")).toBe("status");
      expect([$(".sg-ct").textContent, $(".sg").dataset.veil, el.querySelector(".sg-py, .sg-again, .qs")]).toEqual(["2 / ?", nothing[kind] ?? "", null]);
      expect(el.querySelector(".sg-pic")!.outerHTML).toBe(before);
      end();
    }
  });
  it("takes none of them for an answer when it is said", () => {
    start(scene({ question: question({ kind: "keeps", truth: "[]", targets: [["t0", "a"]] }) }));
    const none = $<HTMLInputElement>(".sg-qc input[type=checkbox]");
    $<HTMLButtonElement>(".sg-check").click();
    expect($(".sg-qv").textContent).toContain("tick “None of them”");
    none.click();
    expect($(".sg-qv").textContent).toBe("");
    key($(".leaf"), "Enter");
    expect(none.checked).toBe(false);
    none.click();
    $<HTMLButtonElement>(".sg-check").click();
    expect($(".sg-qv p").className).toBe("right");
    expect($(".sg-py code").textContent).toBe('q1 = {"keeps": []}');
    expect(none.checked && none.disabled).toBe(true);
  });
  it("hides leaves while it asks for them, from readers of the screen too", () => {
    const asked = question({ kind: "leaves", truth: '["a"]', targets: [["t0", "a"]], veil: "leaves" });
    start(scene({ question: asked }));
    expect($(".sg").dataset.veil).toBe("leaves");
    expect($(".leaf title").textContent).toBe("a");
    key($(".leaf"), "Enter");
    expect($(".leaf").getAttribute("aria-pressed")).toBe("true");
    expect(el.querySelector(".sg-in")!.textContent).not.toContain("grad_fn");
    $<HTMLButtonElement>(".sg-check").click();
    expect($(".sg-qv").textContent).toContain("Right");
    expect($(".sg").dataset.veil).toBe("");
    expect($(".leaf title").textContent).toContain("leaf tensor");
  });
  it("walks by arrows over what can be picked, which says whether it is; elsewhere they step, and everywhere once it's answered", () => {
    const more = ["t1", "t2"].map((id) => `<g class="nd tn" id="s1-${id}-0" data-st="a0" tabindex="-1" role="button"><title>${id}</title></g>`).join("");
    const asked = question({ kind: "keeps", truth: '["a"]', targets: [["t0", "a"], ["t2", "c"]] });
    start(scene({ body: BODY + more, question: asked }), 1);
    const [a, other, c] = [$(".leaf"), $("[id='s1-t1-0']"), $("[id='s1-t2-0']")];
    const pressed = () => [a, other, c].map((part) => part.getAttribute("aria-pressed"));
    expect(pressed()).toEqual(["false", null, "false"]);
    expect([...el.querySelectorAll(".nd[tabindex='0']")]).toEqual([a]);
    a.focus();
    const walked = ["ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp", "Home", "End"].map((name) => {
      key(document.activeElement!, name);
      return document.activeElement;
    });
    expect(walked).toEqual([c, a, c, a, a, c]);
    expect($(".sg-ct").textContent).toBe("2 / ?");
    key(c, " ");
    expect(pressed()).toEqual(["false", null, "true"]);
    key($(".sg-tl input"), "ArrowLeft");
    expect($(".sg-ct").textContent).toBe("1 / ?");
    $<HTMLButtonElement>(".sg-check").click();
    expect(pressed()).toEqual([null, null, null]);
    c.focus();
    key(c, "Home");
    expect($(".sg-ct").textContent).toBe("1 / 4");
  });
  it("takes typed versions and Enter", () => {
    start(scene({ question: question({ kind: "versions", truth: '{"out": 1}', targets: [["out", "out"]] }) }));
    const input = $<HTMLInputElement>(".sg-qc input");
    input.value = "1";
    input.dispatchEvent(new Event("input", { bubbles: true }));
    expect(key(input, "ArrowLeft")).toBe(true);
    key(input, "Enter");
    expect($(".sg-qv").textContent).toContain("✓");
    expect(input.disabled).toBe(true);
  });
  it("takes a click on the line of code", () => {
    start(scene({ question: question({ kind: "culprit", truth: "2", targets: [["line:2", "2"]], evidence: ["line:2"] }) }));
    const line = $(".sg-cd li:nth-child(2)");
    line.querySelector("button")?.click();
    expect(line.querySelector("button")?.getAttribute("aria-pressed")).toBe("true");
    $<HTMLButtonElement>(".sg-check").click();
    expect(line.querySelector("button")?.hasAttribute("aria-pressed")).toBe(false);
    expect(line.dataset.m).toBe("✓");
    expect(line.className).not.toContain("evidence");
  });
  it("gives what is right, wrong and missed a sign each, in words too, and asks again", () => {
    const truth = '["a"]';
    start(scene({ question: question({ kind: "leaves", truth, targets: [["t0", "a"], ["f1", "b"]], veil: "leaves" }) }));
    $(".fn").dispatchEvent(new MouseEvent("click", { bubbles: true }));
    $<HTMLButtonElement>(".sg-check").click();
    expect([...el.querySelectorAll(".qs text")].map((sign) => sign.textContent)).toEqual(["○", "✗"]);
    expect([...el.querySelectorAll(".sg-qm [data-m]")].map((each) => each.textContent)).toEqual(["✗ Not right", "○ Missed"]);
    expect($(".leaf title").textContent).toBe("a, leaf tensor, shape 3, Missed");
    $<HTMLButtonElement>(".sg-again").click();
    expect(el.querySelector(".qs, .sg-qv p")).toBeNull();
    expect($(".sg").dataset.veil).toBe("leaves");
    expect($(".leaf title").textContent).toBe("a");
    expect($(".sg-ct").textContent).toBe("2 / ?");
    $(".leaf").dispatchEvent(new MouseEvent("click", { bubbles: true }));
    $<HTMLButtonElement>(".sg-check").click();
    expect($(".qs text").textContent).toBe("✓");
    expect($(".sg-qv .right").textContent).toContain("Right");
  });
  it("offers beside the lines that it was none of them", () => {
    const choices = [{ key: "1", label: "a = 1", misconception: "", message: "" }, { key: "0", label: "no line", misconception: "", message: "" }];
    start(scene({ question: question({ kind: "culprit", truth: "0", targets: [["line:1", "1"], ["line:2", "2"]], choices }) }));
    expect([...el.querySelectorAll("input[type=radio]")].map((input) => (input as HTMLInputElement).value)).toEqual(["0"]);
    const none = $<HTMLInputElement>("input[type=radio]");
    none.click();
    $(".sg-cd li:nth-child(2) button").click();
    expect(none.checked).toBe(false);
    none.click();
    $<HTMLButtonElement>(".sg-check").click();
    expect(none.checked && none.disabled).toBe(true);
    expect($(".sg-qv p").className).toBe("right");
  });
});

describe("the widget", () => {
  const data: Record<string, unknown> = {};
  const callbacks = new Map<string, Set<() => void>>();
  const save = vi.fn();
  const tell = (event: string) => callbacks.get(event)?.forEach((f) => f());
  const model = {
    get: (k: string) => data[k],
    set(k: string, v: unknown) { data[k] = v; tell(`change:${k}`); },
    on: (e: string, f: () => void) => void callbacks.set(e, (callbacks.get(e) ?? new Set()).add(f)),
    off: (e: string, f: () => void) => void callbacks.get(e)?.delete(f),
    save_changes: save,
  };
  const uncounted = () => [...el.querySelectorAll<HTMLElement>(".sg-qn")].filter((note) => !note.hidden).map((note) => note.textContent);
  beforeEach(() => { Object.assign(data, { scene: scene({ question: question() }), step: 1, selected: "", answer: {} }); });

  it("says that an answer doesn't count once its kernel has gone, before it and after", () => {
    const done = entry.render({ model, el });
    expect(uncounted()).toEqual([]);
    tell("comm_live_update");
    expect(uncounted()).toEqual([expect.stringMatching("no answer counts. Run its cell again")]);
    $<HTMLInputElement>("input[value=silent]").click();
    $<HTMLButtonElement>(".sg-check").click();
    expect(uncounted().length).toBe(1);
    done();
  });
  it("says it of a picture that was opened without its kernel, until its cell has run again", () => {
    el.classList.add("jupyter-widgets-disconnected");
    const done = entry.render({ model, el });
    expect(uncounted().length).toBe(1);
    el.classList.remove("jupyter-widgets-disconnected");
    model.set("scene", scene({ question: question() }));
    expect(uncounted()).toEqual([]);
    done();
  });
  it("says nothing of the kind about an answer that was kept, nor on a page without Jupyter", () => {
    const done = entry.render({ model, el });
    $<HTMLInputElement>("input[value=silent]").click();
    $<HTMLButtonElement>(".sg-check").click();
    tell("comm_live_update");
    expect(uncounted()).toEqual([]);
    done();
    el.classList.add("jupyter-widgets-disconnected");
    start(scene({ question: question() }), 1);
    expect(uncounted()).toEqual([]);
  });
  it("reads and writes its model, and redraws for a new scene", () => {
    const done = entry.render({ model, el });
    $<HTMLInputElement>("input[value=silent]").click();
    $<HTMLButtonElement>(".sg-check").click();
    expect(data.answer).toEqual({ outcome: "silent" });
    expect(data.step).toBe(3);
    expect(save).toHaveBeenCalled();
    model.set("step", 0);
    expect($(".sg-ct").textContent).toBe("1 / 4");
    model.set("scene", scene({ uid: "s1" }));
    expect(el.querySelector(".sg-q")).toBeNull();
    expect(el.querySelectorAll(".sg").length).toBe(1);
    done();
    expect(el.children.length).toBe(0);
    expect([...callbacks.values()].every((set) => set.size === 0)).toBe(true);
  });
});
