/** The one SVG with every step inside: a step only flips attributes. */
import { quiet } from "./dom";
import { type Scene, stateAt } from "./scene";

export interface Picture {
  box: HTMLElement;
  svg: SVGSVGElement;
  parts: SVGGElement[];
  idOf(part: Element): string;
  partAt(target: EventTarget | null): SVGGElement | null;
  /** Hide what an open question asks for, from readers of the screen too. */
  veil(what: string): void;
  show(step: number, marks: { selected: string; picked: (id: string) => boolean; evidence: (id: string) => boolean }): void;
}

const SMALLEST = 0.8; // below 80 % the numbers get too small: scroll instead

export function picture(scene: Scene): Picture {
  const box = document.createElement("div");
  box.className = "sg-cv";
  box.innerHTML = `<svg class="sg-svg" viewBox="${scene.view_box}" width="${scene.width_px}" height="${scene.height_px}" role="group" aria-label="graph">${scene.body}</svg>`;
  const svg = box.firstElementChild as SVGSVGElement;
  svg.style.minWidth = `${Math.round(scene.width_px * SMALLEST)}px`;
  const last = scene.frames.length - 1;
  const timed = [...svg.querySelectorAll<SVGElement>("[data-a],[data-b]")].map((element) => ({
    element, since: Number(element.dataset.a ?? 0), until: Number(element.dataset.b ?? last), line: element.classList.contains("e"),
  }));
  const parts = [...svg.querySelectorAll<SVGGElement>("[data-st]")];
  const labels = parts.map((part) => part.getAttribute("aria-label") ?? "");
  const idOf = (part: Element) => part.id.slice(scene.uid.length + 1);
  for (const part of parts) {
    quiet(part);
    for (const kid of part.children) if (kid.tagName !== "title") kid.setAttribute("aria-hidden", "true");
  }
  parts[0]?.setAttribute("tabindex", "0");
  return {
    box, svg, parts, idOf,
    partAt: (target) => (target instanceof Element ? target.closest<SVGGElement>("[data-st]") : null),
    veil(what) {
      if ((svg.dataset.veil ?? "") === what && svg.dataset.labelled) return;
      svg.dataset.veil = what;
      svg.dataset.labelled = "true";
      parts.forEach((part, k) => part.setAttribute("aria-label", (what ? labels[k]?.split(",")[0] : labels[k]) ?? ""));
    },
    show(step, marks) {
      for (const { element, since, until, line } of timed) {
        const visible = since <= step && step <= until;
        if (line) element.classList.toggle("ghost", !visible);
        else element.style.display = visible ? "" : "none";
      }
      for (const part of parts) {
        const id = idOf(part);
        part.dataset.s = stateAt(part.dataset.st ?? "", step);
        part.classList.toggle("sel", id === marks.selected);
        part.classList.toggle("picked", marks.picked(id));
        part.classList.toggle("evidence", marks.evidence(id));
        part.setAttribute("aria-hidden", String(part.dataset.s === "g"));
      }
    },
  };
}
