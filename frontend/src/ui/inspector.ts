/** The words of a step, torch's own error, and a table about one card or pill. */
import { button, h } from "./dom";
import { sheets } from "../numbers/sheets";
import type { Event } from "../state/machine";
import { at, drawnAt, findings, type Item, lastWord, type Scene, sheetsAt } from "../state/scene";
import { lineIn, type Words } from "./words";

export function inspector(scene: Scene, w: Words, send: (event: Event) => void, toLine: (number: number) => void, fix: HTMLElement): { element: HTMLElement; show(step: number, selected: string, veil: string, line?: string): void } {
  const element = h("div", { class: "sg-in" });
  const walked = sheets(w);
  const all = findings(scene);
  const go = (step: number) => send({ kind: "go", step });
  return {
    element,
    show(step, selected, veil, line) {
      const frame = scene.frames[step];
      if (!frame) return;
      element.replaceChildren(h("p", {}, ...withCode(frame.text)));
      const diagnosis = lastWord(scene, step);
      if (diagnosis) element.append(h("p", { class: `dg ${frame.diagnosis && (frame.severity ?? "calm")}` }, ...withCode(diagnosis).flatMap((piece) => (typeof piece === "string" ? withLines(piece, scene, toLine) : [piece]))), fix);
      const drawn = drawnAt(scene, step);
      const told = all.find(({ said }) => said === diagnosis);
      if (all.length > 1) element.append(row(w.finding, all.map((each, k) => rung(`${k + 1} ${w.of} ${all.length}`, each === told, () => go(each.steps[0]!)))));
      const places = new Map((told ? [told] : all).flatMap(({ steps }) => steps).map((each) => [drawnAt(scene, each).place, each]));
      if (scene.passes.length && places.size) element.append(row(told ? w.foundIn : w.foundElse, [...places].sort(([a], [b]) => a - b).map(([k, each]) => rung(scene.passes[k]!.label, k === drawn.place, () => go(each)))));
      if (frame.message) element.append(h("div", { class: "ex" }, frame.message));
      if (line) return element.append(...line.split("\n").map((told) => h("p", {}, told)));
      const about = selected || (step > 0 && !frame.message ? frame.on.at(-1) : "");
      const item = drawn.scene.items.find(({ id }) => id === about);
      if (item && item.born <= drawn.step) element.append(...table(item, drawn.step, w, veil), ...walked(sheetsAt(drawn.scene, item.id, drawn.step).filter(({ key }) => !VEILED[veil]?.test(key))), ...ladder(scene, item, drawn.place, w, (place) => send({ kind: "pass", place })));
      else if (item) element.append(h("p", { class: "later" }, h("b", {}, item.label), ` ${w.later} ${item.born + 1}`));
    },
  };
}

const rung = (label: string, current: boolean, onclick: () => void) => button(label, onclick, { "aria-current": current });
const row = (label: string, buttons: HTMLElement[]) => h("p", { class: "sg-ld" }, h("span", {}, label), ...buttons);

/** A parameter's versions, pass by pass, each with its number where it is one. */
function ladder(scene: Scene, item: Item, here: number, w: Words, go: (place: number) => void): HTMLElement[] {
  if (item.kind !== "leaf") return [];
  const rungs = scene.passes.flatMap((each, place) => {
    const rows = each.scene.items.find(({ id }) => id === item.id)?.rows ?? [];
    const told = (key: string) => rows.find((row) => row.key === key)?.values.at(-1)?.[1];
    const value = told(rows[0]!?.key) ?? "";
    const version = told("_version");
    return version === undefined ? [] : [rung(`v${version}${/^\[?[^,\s]+\]?$/.test(value) ? " " + value.replace(/[[\]]/g, "") : ""}`, place === here, () => go(place))];
  });
  return rungs.length > 1 ? [row(w.ladder, rungs)] : [];
}

/** Text with `code` between backticks. */
export function withCode(text: string): (Node | string)[] {
  return text.split("`").map((piece, k) => (k % 2 ? h("code", {}, piece) : piece));
}

/** Text in which a line of the code that is shown leads there; one of another file has its name beside it. */
function withLines(text: string, scene: Scene, to: (number: number) => void): (Node | string)[] {
  return text.split(lineIn(scene.lang)).map((piece, k) => {
    const number = k % 2 ? Number(piece.match(/\d+/)) : NaN;
    return scene.code.some(([each]) => each === number) ? button(piece, () => to(number), { class: "sg-li" }) : piece;
  });
}

const VEILED: Record<string, RegExp> = { leaves: /^(requires_grad|grad_fn|\.grad|AccumulateGrad)$/, keeps: /^(\.grad|AccumulateGrad)$/, saves: /save|保存/ };

function table(item: Item, step: number, w: Words, veil: string): HTMLElement[] {
  const rows = item.rows.flatMap((row) => {
    const value = at(row.values, step);
    return value === undefined || VEILED[veil]?.test(row.key) ? [] : [h("tr", {}, h("th", { scope: "row" }, row.key), h("td", {}, value))];
  });
  const kind = veil === "leaves" && item.id.startsWith("t") ? w.tensor : (w[item.kind as keyof Words] ?? item.kind);
  return [h("table", {}, h("caption", {}, item.label, " ", h("small", {}, kind)), h("tbody", {}, ...rows))];
}
