/** The words of a step, torch's own error, and a table about one card or pill. */
import { h } from "./dom";
import { at, type Item, lastWord, type Scene } from "../state/scene";
import type { Words } from "./words";

export function inspector(scene: Scene, w: Words): { element: HTMLElement; show(step: number, selected: string, veil: string): void } {
  const element = h("div", { class: "sg-in" });
  const items = new Map(scene.items.map((item) => [item.id, item]));
  return {
    element,
    show(step, selected, veil) {
      const frame = scene.frames[step];
      if (!frame) return;
      element.replaceChildren(h("p", {}, ...withCode(frame.text)));
      const diagnosis = lastWord(scene, step);
      if (diagnosis) element.append(h("p", { class: `dg ${frame.diagnosis && (frame.severity ?? "calm")}` }, ...withCode(diagnosis)));
      if (frame.message) element.append(h("div", { class: "ex" }, frame.message));
      const about = selected || (step > 0 && !frame.message ? frame.on.at(-1) : "");
      const item = items.get(about as string);
      if (item && item.born <= step) element.append(...table(item, step, w, veil));
      else if (item) element.append(h("p", { class: "later" }, h("b", {}, item.label), ` ${w.later} ${item.born + 1}`));
    },
  };
}

/** Text with `code` between backticks. */
export function withCode(text: string): (Node | string)[] {
  return text.split("`").map((piece, k) => (k % 2 ? h("code", {}, piece) : piece));
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
