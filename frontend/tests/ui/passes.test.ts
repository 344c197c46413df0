// @vitest-environment jsdom
import axe from "axe-core";
import { expect, test } from "vitest";
import { drawnAt, firstFinding, firstLook, readScene, sameStep, type Scene } from "../../src/state/scene";
import { play } from "../../src/standalone";
import { BODY, frame, scene } from "../scene";

const inner = (value: string, severity: "error" | null = null): Scene => scene({
  frames: [frame({ phase: "start" }), frame({ on: ["f1"] }), frame({ on: ["t0-0"], severity, diagnosis: severity ? "It broke." : "" })],
  items: [
    { id: "t0-0", kind: "leaf", label: "w", born: 0, level: "", rows: [{ key: "value", values: [[0, value]] }, { key: "_version", values: [[0, value]] }] },
    { id: "f1", kind: "node", label: "MulBackward0", born: 1, level: "", rows: [] },
  ],
});
const looped = (severity: "error" | null = null): Scene => {
  const scenes = [inner("1"), inner("2", severity), inner("3")];
  return scene({
    body: "", items: [], frames: scenes.flatMap((each) => each.frames),
    passes: scenes.map((each, k) => ({ label: `pass ${k + 1} of 3`, first: 3 * k, number: k + 1, scene: each, loss: `${4 - k}` })),
  });
};
function mounted(data: Scene, step?: number) {
  document.body.innerHTML = "<main></main>";
  const root = document.querySelector("main")!;
  play(root, data, step);
  return { root, find: <T extends HTMLElement>(selector: string) => root.querySelector<T>(selector)! };
}
const press = (element: Element, key: string, more = {}) => element.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, ...more }));

test("a step belongs to the pass that it lies in", () => {
  const data = looped();
  expect([0, 2, 3, 8].map((step) => [drawnAt(data, step).place, drawnAt(data, step).step])).toEqual([[0, 0], [0, 2], [1, 0], [2, 2]]);
});

test("a bar is as high as its loss", () => {
  const heights = (...losses: string[]) => {
    const data = looped();
    data.passes.forEach((pass, k) => (pass.loss = losses[k]!));
    return [...mounted(data).root.querySelectorAll<HTMLElement>(".sg-pb i")].map((bar) => bar.style.getPropertyValue("--h"));
  };
  expect(heights("10.5", "9", "8")).toEqual(["100.0%", "85.7%", "76.2%"]);
  expect(heights("-1", "1", "nan")).toEqual(["6.0%", "100.0%", "100.0%"]);
  expect(heights("0", "0", "0")).toEqual(["6.0%", "6.0%", "6.0%"]);
});

test("the same step of another pass, its last for the last", () => {
  const data = looped();
  expect([sameStep(data, 1, 2), sameStep(data, 2, 0), sameStep(data, 4, 9)]).toEqual([7, 2, 4]);
});

test("a picture begins where something is wrong, else at its end", () => {
  expect([firstLook(looped()), firstLook(looped("error")), firstLook(null)]).toEqual([8, 5, 0]);
});

test("a page of its own begins at what was found: what is wrong, else a note", () => {
  const found = (...severities: Scene["frames"][0]["severity"][]) => firstFinding({ ...scene(), frames: severities.map((severity) => ({ ...scene().frames[0]!, severity })) });
  expect([found(null, "wrong", "note", null), found(null, "note", null), found(null, null)]).toEqual([1, 1, 1]);
  expect([firstFinding(looped()), firstFinding(looped("error")), firstFinding(null)]).toEqual([8, 5, 0]);
});

test("Shift and arrows turn to the next pass at the same step, and what is selected stays so", () => {
  const { root, find } = mounted(looped(), 1);
  find("[id$=t0-0]").dispatchEvent(new MouseEvent("click", { bubbles: true }));
  expect(find(".sg-in td").textContent).toBe("1");
  press(find(".sg"), "ArrowRight", { shiftKey: true });
  expect(find(".sg-pn").textContent).toBe("pass 2 of 3");
  expect(find(".sg-ct").textContent).toBe("2 / 3");
  expect(find(".sg-in td").textContent).toBe("2");
  press(find(".sg"), "ArrowLeft", { shiftKey: true });
  press(find(".sg"), "ArrowLeft", { shiftKey: true });
  expect(find(".sg-pn").textContent).toBe("pass 1 of 3");
  expect(root.querySelectorAll(".sg-pb i")).toHaveLength(3);
});

test("plain arrows go on into the next pass", () => {
  const { find } = mounted(looped(), 2);
  press(find(".sg"), "ArrowRight");
  expect([find(".sg-pn").textContent, find(".sg-ct").textContent]).toEqual(["pass 2 of 3", "1 / 3"]);
});

test("the strip is one slider that says pass, loss and finding", () => {
  const { find } = mounted(looped("error"));
  const slider = find<HTMLInputElement>(".sg-pb input");
  expect(slider.getAttribute("aria-valuetext")).toBe("pass 2 of 3, loss 3, something was found here");
  expect(find(".sg-pb .error").textContent).toBe("!");
  slider.value = "0";
  slider.dispatchEvent(new Event("input"));
  expect(find(".sg-pn").textContent).toBe("pass 1 of 3");
});

test("the keys of a focused slider move what it is called: the browser's own, told to nobody else", () => {
  const { find } = mounted(looped(), 1);
  const heard: string[] = [];
  document.body.onkeydown = (event) => { heard.push(event.key); };
  const free = (selector: string, key: string) => find(selector).dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  for (const key of ["ArrowRight", "ArrowLeft", "ArrowUp", "ArrowDown", "Home", "End", "PageUp"]) expect(free(".sg-pb input", key)).toBe(true);
  expect([find(".sg-ct").textContent, heard]).toEqual(["2 / 3", []]);
  expect(free(".sg-tl input", "ArrowRight")).toBe(false);
  expect(find(".sg-ct").textContent).toBe("3 / 3");
  document.body.onkeydown = null;
});

test("the bars are called what the program calls their number", () => {
  const data = looped();
  for (const pass of data.passes) pass.name = "loss_g";
  const { find } = mounted(data);
  expect(find(".sg-pl").textContent).toBe("loss_g 2");
  expect(find<HTMLInputElement>(".sg-pb input").title).toBe("loss_g · pass by pass");
});

test("a parameter's ladder and a finding's passes lead there", () => {
  const { root, find } = mounted(looped("error"), 1);
  find("[id$=t0-0]").dispatchEvent(new MouseEvent("click", { bubbles: true }));
  const buttons = () => [...root.querySelectorAll<HTMLButtonElement>(".sg-ld button")];
  expect(buttons().map((button) => button.textContent)).toEqual(["pass 2 of 3", "v1 1", "v2 2", "v3 3"]);
  buttons()[3]!.click();
  expect(find(".sg-pn").textContent).toBe("pass 3 of 3");
  buttons()[0]!.click();
  expect(find(".sg-pn").textContent).toBe("pass 2 of 3");
  expect(root.querySelector(".sg-ld [aria-current]")?.textContent).toBe("pass 2 of 3");
});

test("every finding is listed, each with its own passes", () => {
  const broke = (said: string) => { const each = inner("1", "error"); each.frames[2]!.diagnosis = said; return each; };
  const scenes = [broke("One."), broke("Two."), broke("One.")];
  const data = { ...looped(), frames: scenes.flatMap((each) => each.frames), passes: looped().passes.map((each, k) => ({ ...each, scene: scenes[k]! })) };
  const { root, find } = mounted(data, 8);
  const rows = () => [...root.querySelectorAll(".sg-ld")].slice(0, 2).map((row) => [...row.children].map((each) => `${each.textContent}${each.getAttribute("aria-current") === "true" || each.getAttribute("aria-current") === "" ? "*" : ""}`));
  expect(rows()).toEqual([["finding", "1 of 2*", "2 of 2"], ["found in", "pass 1 of 3", "pass 3 of 3*"]]);
  root.querySelectorAll<HTMLButtonElement>(".sg-ld button")[1]!.click();
  expect(rows()).toEqual([["finding", "1 of 2", "2 of 2*"], ["found in", "pass 2 of 3*"]]);
  expect(find(".dg").textContent).toBe("Two.");
  mounted(looped("error"), 5);
  expect(document.querySelector(".sg-ld span")!.textContent).toBe("found in");
  mounted(looped("error"), 1); // no finding stands above it
  expect(document.querySelector(".sg-ld span")!.textContent).toBe("something was found in");
});

test("axe finds nothing", async () => {
  mounted(looped("error")); // of the picture itself a real browser asks
  const { violations } = await axe.run({ include: [".sg-ps", ".sg-in"] }, { rules: { "color-contrast": { enabled: false }, region: { enabled: false } } });
  expect(violations.map((found) => found.id)).toEqual([]);
});

test("a packed Scene is read as it was", () => {
  const gap = (k: number) => `\ue002${k}\ue003`;
  const said = JSON.stringify(frame({ text: `step ${gap(0)}` }));
  const plain = { ...scene(), frames: "0 7;0 8", items: "", parts: "", levels: [], body: "0", passes: [], templates: [said, `<path d="M${gap(0)} 0"/>`], drawings: [`1 ${gap(0)};1 5`], chunks: "0 4" };
  const read = readScene(plain)!;
  expect(read.frames.map(({ text }) => text)).toEqual(["step 7", "step 8"]);
  expect(read.body).toBe('<path d="M4 0"/><path d="M5 0"/>');
  expect(BODY).not.toBe("");
});
