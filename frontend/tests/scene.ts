import type { Frame, Question, Scene } from "../src/state/scene";

/** jsdom lays nothing out, so there is nothing to observe. */
globalThis.ResizeObserver ??= class { observe() {} unobserve() {} disconnect() {} };

export const frame = (more: Partial<Frame> = {}): Frame => ({
  phase: "forward", title: "b = a * 2", text: "b is computed.", line: 0, on: [], message: "", diagnosis: "", severity: null, ...more,
});

export const question = (more: Partial<Question> = {}): Question => ({
  id: "outcome-1", kind: "outcome", prompt: "What will happen?", truth: '"silent"', until_step: 1, targets: [], right: "Yes.", wrong: "No.",
  choices: [
    { key: "raise", label: "raises", misconception: "M05", message: "Detach isn't data." },
    { key: "silent", label: "silent", misconception: "", message: "" },
    { key: "fine", label: "fine", misconception: "M06", message: "No error isn't right." },
  ],
  evidence: ["f1"], name: "q1", veil: "", ...more,
});

export const BODY =
  '<path class="e" d="M0 0" data-a="1"/>' +
  '<g class="nd tn leaf" id="s1-t0-0" data-st="a0 n1" tabindex="-1" role="button"><title>a, leaf tensor, shape 3</title><rect class="halo"/></g>' +
  '<g class="nd fn" id="s1-f1" data-st="g0 a1 n2 w3" tabindex="-1" role="button"><title>MulBackward0, Function</title><rect class="halo"/></g>' +
  '<g class="clash" data-a="3"><text>v0 saved</text></g>';

export const scene = (more: Partial<Scene> = {}): Scene => ({
  schema: 1, uid: "s1", body: BODY, view_box: "0 0 100 50", width_px: 100, height_px: 50,
  frames: [
    frame({ phase: "start", title: "before", text: "Nothing yet.", line: null }),
    frame({ on: ["f1"] }),
    frame({ phase: "backward" }),
    frame({ phase: "backward", severity: "wrong", diagnosis: "Line `2` did it.", text: "Mul runs." }),
  ],
  items: [
    { id: "f1", kind: "node", label: "MulBackward0", born: 1, level: "", rows: [{ key: "made by", values: [[0, "mul"]] }] },
    { id: "t0-0", kind: "leaf", label: "a", born: 0, level: "", rows: [{ key: "grad_fn", values: [[0, "None"]] }, { key: "_version", values: [[0, "0"], [2, "1"]] }] },
  ],
  code: [[1, "b = a * 2"], [2, "b.backward()"]],
  question: null, lang: "en", levels: [], parts: [], passes: [], ...more,
});
