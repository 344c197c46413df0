/** All passes of a training loop as one strip, as high as their loss; one of them is shown. */
import { h, iconButton, quiet, unusable } from "./dom";
import type { Event } from "../state/machine";
import { drawnAt, type Pass, type Scene, type Severity } from "../state/scene";
import type { Words } from "./words";

const LOWEST = 6; // per cent: a loss of 0 is seen too

export interface Strip { element: HTMLElement; show(step: number): void }

/** The worst that was found in a pass. */
export const worst = ({ scene }: Pass): Severity | null => (["error", "wrong", "note"] as const).find((each) => scene.frames.some(({ severity }) => severity === each)) ?? null;

export function strip(scene: Scene, w: Words, send: (event: Event) => void): Strip {
  const { passes } = scene;
  const element = h("div", { class: "sg-ps", role: "group", "aria-label": w.passes });
  element.hidden = !passes.length;
  if (!passes.length) return { element, show() {} };
  const losses = passes.map(({ loss }) => (loss ? Number(loss) : NaN));
  const finite = losses.filter(Number.isFinite);
  const most = Math.max(0, ...finite);
  const least = Math.min(0, ...finite); // a bar twice as high is a loss twice as high
  const bars = passes.map((pass, k) => {
    const loss = losses[k]!;
    const height = Number.isFinite(loss) ? Math.max(LOWEST, (100 * (loss - least)) / (most - least || 1)) : pass.number ? 100 : LOWEST;
    const finding = worst(pass);
    const broken = pass.loss && !Number.isFinite(loss);
    return h("i", { class: `${finding ?? ""} ${broken ? "error" : ""} ${pass.number ? "" : "out"}`, style: `--h:${height.toFixed(1)}%` }, finding || broken ? h("b", {}, finding === "note" ? "i" : "!") : "");
  });
  const range: HTMLInputElement = quiet(h("input", { type: "range", min: 0, max: passes.length - 1, step: 1, "aria-label": w.passes, oninput: () => send({ kind: "pass", place: Number(range.value) }), onkeydown: (event: KeyboardEvent) => { if (/^(Arrow|Home|End|Page)/.test(event.key)) event.stopPropagation(); } })); // these move it, and nothing around it
  range.title = [...new Set(passes.flatMap((each) => (each.loss ? each.name || w.loss : [])))].join(", ") + ` · ${w.ladder}`; // what the bars are
  const label = h("b", { class: "sg-pn" });
  const loss = h("span", { class: "sg-pl" });
  const prev = iconButton("prev", w.prevPass, () => send({ kind: "passes", by: -1 }));
  const next = iconButton("next", w.nextPass, () => send({ kind: "passes", by: 1 }));
  element.append(prev, label, next, h("div", { class: "sg-pb" }, ...bars, range), loss);
  return {
    element,
    show(step) {
      const { place } = drawnAt(scene, step);
      const here = passes[place]!;
      bars.forEach((bar, k) => bar.classList.toggle("cur", k === place));
      range.value = `${place}`;
      label.textContent = here.label;
      loss.textContent = here.loss && `${here.name || w.loss} ${here.loss}`;
      range.setAttribute("aria-valuetext", [here.label, loss.textContent, worst(here) && w.found].filter(Boolean).join(", "));
      unusable(prev, !place);
      unusable(next, place === passes.length - 1);
    },
  };
}
