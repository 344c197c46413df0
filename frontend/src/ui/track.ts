/** One track, coloured by phase, with the step's number and its phase in words. */
import { h, quiet } from "./dom";
import { drawnAt, type Frame, type Scene } from "../state/scene";
import type { Words } from "./words";

const COLOUR: Record<string, string> = { start: "fn", forward: "fn", inplace: "fn", backward: "grl", error: "er" };
const MOST_TICKS = 48; // more of them couldn't be told apart

export interface Track {
  element: HTMLElement;
  count: HTMLElement;
  chip: HTMLElement;
  show(step: number, end: number, open: boolean): void;
}

export function track(scene: Scene, w: Words, go: (step: number) => void): Track {
  const range: HTMLInputElement = quiet(h("input", { type: "range", min: 0, max: 1, step: 1, "aria-label": w.step, oninput: () => go(first + Number(range.value)) }));
  let first = 0; // of the pass that is shown
  const element = h("div", { class: "sg-tl" });
  const count = h("span", { class: "sg-ct", "aria-hidden": "true" });
  const chip = h("span", { class: "sg-chip" });
  let drawn = -1;
  return {
    element, count, chip,
    show(step, end, open) {
      const here = drawnAt(scene, step);
      first = step - here.step;
      if (scene.passes.length) end = here.scene.frames.length - 1;
      if (drawn !== first + end) {
        element.replaceChildren(bar(here.scene.frames, end), range);
        range.max = `${end}`;
        drawn = first + end;
      }
      const frame = scene.frames[step];
      if (!frame) return;
      const phase = phaseWord(frame, w);
      range.value = `${here.step}`;
      range.setAttribute("aria-valuetext", `${here.step + 1} ${w.of} ${open ? "?" : end + 1}, ${phase}: ${frame.title}`);
      count.textContent = `${here.step + 1} / ${open ? "?" : end + 1}`;
      chip.textContent = phase;
    },
  };
}

const phaseWord = (frame: Frame, w: Words) => (frame.severity === "wrong" ? w.silent : w[frame.phase]);

/** One bar in the colours of its steps, each colour up to where its step ends. */
function bar(frames: Frame[], end: number): HTMLElement {
  const colours = frames.slice(1, end + 1).map((frame, k) => `var(--${frame.severity === "wrong" ? "er" : COLOUR[frame.phase]}) 0 ${(100 * (k + 1)) / end}%`);
  const ticks = end < MOST_TICKS ? `repeating-linear-gradient(90deg,#0000 0 calc(${100 / end}% - 2px),var(--sub) 0 ${100 / end}%),` : "";
  return h("i", { class: "seg", style: `background:${ticks}linear-gradient(90deg,${colours},#0000 0)` });
}
