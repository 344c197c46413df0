/** One track, coloured by phase, with the step's number and its phase in words. */
import { h, quiet } from "./dom";
import type { Frame, Scene } from "./scene";
import type { Words } from "./words";

const COLOUR: Record<string, string> = { start: "fn", forward: "fn", inplace: "er", backward: "grl", error: "er" };
const MOST_TICKS = 80; // more of them is a grey band

export interface Track {
  element: HTMLElement;
  count: HTMLElement;
  chip: HTMLElement;
  show(step: number, end: number, open: boolean): void;
}

export function track(scene: Scene, w: Words, go: (step: number) => void): Track {
  const range: HTMLInputElement = quiet(h("input", { type: "range", min: 0, max: 1, step: 1, "aria-label": w.step, oninput: () => go(Number(range.value)) }));
  const element = h("div", { class: "sg-tl" });
  const count = h("span", { class: "sg-ct", "aria-hidden": "true" });
  const chip = h("span", { class: "sg-chip" });
  let drawn = -1;
  return {
    element, count, chip,
    show(step, end, open) {
      if (drawn !== end) {
        element.replaceChildren(...segments(scene.frames, end), range);
        range.max = String(end);
        drawn = end;
      }
      const frame = scene.frames[step];
      if (!frame) return;
      const phase = phaseWord(frame, w);
      range.value = String(step);
      range.setAttribute("aria-valuetext", `${step + 1} ${w.of} ${open ? "?" : end + 1}, ${phase}: ${frame.title}`);
      count.textContent = `${step + 1} / ${open ? "?" : end + 1}`;
      chip.textContent = phase;
    },
  };
}

const phaseWord = (frame: Frame, w: Words) => (frame.severity === "wrong" ? w.silent : w[frame.phase]);

function segments(frames: Frame[], end: number): HTMLElement[] {
  const made: HTMLElement[] = [];
  const place = (k: number) => `calc(9px + (100% - 18px) * ${k / Math.max(1, end)})`;
  for (let k = 1; k <= end; k++) {
    const frame = frames[k];
    const colour = frame?.severity === "wrong" ? "er" : COLOUR[frame?.phase ?? "start"];
    made.push(h("i", { class: "seg", style: `left:${place(k - 1)};width:calc((100% - 18px) * ${1 / end});background:var(--${colour})` }));
  }
  if (end < MOST_TICKS) for (let k = 1; k < end; k++) made.push(h("i", { class: "tk", style: `left:${place(k)}` }));
  return made;
}
