/** The line that mends a finding: to be copied, and where a kernel runs to be tried; then both pictures side by side. */
import { plainHost } from "./host";
import type { Fix, Scene } from "../state/scene";
import { button, h } from "../ui/dom";
import { withCode } from "../ui/inspector";
import type { Host } from "../ui/player";
import type { Words } from "../ui/words";

/** What the kernel says of a trial: it has begun, it's over, why it couldn't be; each picture opens at its step. */
export interface Trial { state?: "asked" | "running" | "done" | "failed"; step?: number; said?: string; told?: string; scenes?: Scene[]; steps?: number[] }

export interface FixPanel {
  /** Beside the finding. */
  element: HTMLElement;
  /** Below the picture. */
  result: HTMLElement;
  show(fix: Fix | null, step: number): void;
}

const PATIENCE_MS = 8000; // a kernel that runs says so at once

export function fixPanel(host: Host, w: Words, mount: (el: HTMLElement, scene: Scene, host: Host) => () => void): FixPanel {
  const result = h("section", { class: "sg-tr", hidden: true, "aria-label": w.compared });
  const lines = h("div", { class: "sg-fl" });
  const copy = button(w.copyFix, () => void navigator.clipboard?.writeText(copy.value).then(() => { copy.textContent = w.copied; }));
  const attempt = button(w.tryFix, ask, { title: w.tryTitle });
  const status = h("span", { role: "status" });
  const where = h("span", {});
  const element = h("div", { class: "sg-fx" }, lines, where, copy, attempt, status);
  let now = 0;
  let said = "";
  let waiting = 0;
  let drawn: Trial | undefined;

  const trial = () => (host.get("trial") ?? {}) as Trial;

  function ask() {
    host.set({ trial: { state: "asked", step: now } });
    clearTimeout(waiting);
    waiting = window.setTimeout(() => { if (trial().state === "asked") { said = w.noKernel; tell(); } }, PATIENCE_MS);
    said = "";
    tell();
  }

  function tell() {
    const { state, said: why = "" } = trial();
    const busy = !said && (state === "asked" || state === "running");
    attempt.hidden = !host.get("can_try");
    attempt.disabled = busy;
    status.textContent = busy ? w.trying : said || (state === "failed" || state === "done" ? why : "");
  }

  /** Both pictures, each with a player of its own. */
  function draw() {
    const found = trial();
    if (found === drawn || (found.state !== "done" && drawn === undefined)) return;
    drawn = found;
    const scenes = found.state === "done" ? (found.scenes ?? []) : [];
    result.hidden = !scenes.length;
    const sides = scenes.map((scene, k) => {
      const side = h("div", {}, h("h4", {}, k ? w.after : w.before));
      mount(side, scene, plainHost(found.steps![k]!));
      return side;
    });
    result.replaceChildren(h("p", {}, h("b", {}, ...withCode(found.said ?? "")), "\n", ...withCode(found.told ?? "")), ...sides);
    if (waiting) result.scrollIntoView?.(); // who has asked for it sees it, with both pictures
  }

  return {
    element, result,
    show(fix, step) {
      now = step;
      element.hidden = !fix;
      if (fix && copy.value !== fix.after) {
        copy.value = fix.after;
        copy.textContent = w.copyFix;
        where.textContent = fix.where;
        lines.replaceChildren(h("del", {}, fix.before), h("ins", {}, fix.after));
      }
      tell();
      draw();
    },
  };
}
