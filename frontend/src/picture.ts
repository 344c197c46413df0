/** One SVG with every step inside for each open box: a step only flips attributes, opening a box swaps the SVG. */
import { quiet } from "./dom";
import { levelAt, type Scene, stateAt } from "./scene";

export interface Marks { selected: string; focused: boolean; picked: (id: string) => boolean; place?: ((id: string) => number) | undefined; evidence: (id: string) => boolean }

export interface Picture {
  box: HTMLElement;
  /** The parts of the open level. */
  parts(): SVGGElement[];
  idOf(part: Element): string;
  partAt(target: EventTarget | null): SVGGElement | null;
  theme(name: string): void;
  /** Hide what an open question asks for, from readers of the screen too. */
  veil(what: string): void;
  show(step: number, level: string, marks: Marks): void;
}

interface Timed { element: SVGElement; since: number; until: number; at: string[] | undefined; shown?: boolean }
interface Wire { element: SVGElement; ends: string[] }
interface Drawing { svg: SVGSVGElement; timed: Timed[]; parts: SVGGElement[]; labels: string[]; wires: Wire[]; scroll: [number, number] }

const SMALLEST = 0.8; // below 80 % the numbers get too small: scroll instead

function drawing(scene: Scene, id: string): Drawing {
  const { body, width_px, height_px, label } = levelAt(scene, id);
  const shared = new Map(scene.parts);
  const inside = body.replace(/\ue001(\S+) (.*?)\ue001/g, (_, name, place) => shared.get(name)?.replace("0.0 0.0", place) ?? "");
  const box = document.createElement("div");
  box.innerHTML = `<svg class="sg-svg" viewBox="0 0 ${width_px} ${height_px}" width="${width_px}" height="${height_px}" role="group">${inside}</svg>`;
  const svg = box.firstElementChild as SVGSVGElement;
  svg.setAttribute("aria-label", label || "graph");
  svg.style.minWidth = `${Math.round(width_px * SMALLEST)}px`;
  const last = scene.frames.length - 1;
  const timed = [...svg.querySelectorAll<SVGElement>("[data-a],[data-b],[data-at]")].map((element) => ({
    element, since: Number(element.dataset.a ?? 0), until: Number(element.dataset.b ?? last), at: element.dataset.at?.split(" "),
  }));
  const parts = [...svg.querySelectorAll<SVGGElement>("[data-st]")];
  for (const part of parts) {
    quiet(part);
    for (const kid of part.children) if (kid.tagName !== "title") kid.setAttribute("aria-hidden", "true");
  }
  parts[0]?.setAttribute("tabindex", "0");
  const labels = parts.map((part) => nameOf(part)?.textContent ?? "");
  const wires = [...svg.querySelectorAll<SVGElement>("[data-w]")].map((element) => ({ element, ends: element.dataset.w?.split(" ") ?? [] }));
  return { svg, timed, parts, labels, wires, scroll: [0, 0] };
}

/** The learner's own number on a part, none for 0. */
function number(part: SVGGElement, place: number) {
  part.querySelector(":scope > .qn")?.remove();
  if (place) part.insertAdjacentHTML("beforeend", `<text class="qn" y="5" aria-hidden="true">${place}</text>`);
}

/** A part is called by its `<title>`: a label beside the text that it shows would be a second name. */
const nameOf = (part: Element) => part.querySelector(":scope > title");

export function picture(scene: Scene): Picture {
  const box = document.createElement("div");
  box.className = "sg-cv";
  const drawings = new Map<string, Drawing>();
  let here = drawing(scene, "");
  let open = "";
  let theme = "light";
  let veiled = "";
  let numbers = false; // has any part had a place in an order?
  drawings.set("", here);
  box.append(here.svg);
  const idOf = (part: Element) => part.id.slice(scene.uid.length + 1);
  const partOf = (id: string) => here.parts.find((part) => idOf(part) === id);

  function turnTo(level: string) {
    if (level === open) return undefined;
    const closed = open;
    const focused = box.contains(document.activeElement);
    here.scroll = [box.scrollLeft, box.scrollTop];
    here = drawings.get(level) ?? drawing(scene, level);
    drawings.set(level, here);
    open = level;
    box.replaceChildren(here.svg);
    [box.scrollLeft, box.scrollTop] = here.scroll;
    dress();
    // the head of the frame that has opened, or the box that has closed
    const turned = partOf(level) ?? partOf(closed);
    if (focused) turned?.focus();
    return turned;
  }

  /** What holds for every level: the theme, and what an open question hides. */
  function dress() {
    here.svg.dataset.theme = theme;
    here.svg.dataset.veil = veiled;
    here.parts.forEach((part, k) => {
      const name = nameOf(part);
      if (name) name.textContent = (veiled ? here.labels[k]?.split(",")[0] : here.labels[k]) ?? "";
    });
  }

  /** One part takes the Tab key, and never one that isn't there yet; a focus that would be lost moves to it. */
  function rove() {
    const there = here.parts.filter((part) => part.dataset.s !== "g");
    const stop = there.find((part) => part.getAttribute("tabindex") === "0") ?? there[0];
    const lost = here.parts.find((part) => part === document.activeElement)?.dataset.s === "g";
    for (const part of there) part.setAttribute("tabindex", part === stop ? "0" : "-1");
    if (lost) stop?.focus();
    for (const part of here.parts) if (part.dataset.s === "g") part.removeAttribute("tabindex");
  }

  function focusOn(id: string, focused: boolean) {
    here.svg.classList.toggle("foc", focused && !!partOf(id));
    if (!focused) return;
    const near = new Set([id]);
    for (const { element, ends } of here.wires) {
      const touches = ends.includes(id);
      element.classList.toggle("near", touches);
      if (touches) for (const end of ends) near.add(end);
    }
    for (const part of here.parts) part.classList.toggle("near", near.has(idOf(part)));
  }

  /** Scroll inside the box, never the page, until the part is in sight; one that has `turned` has much below it. */
  function reveal(part: SVGGElement | undefined, turned: boolean) {
    if (!part || typeof part.getBoundingClientRect !== "function") return;
    const view = box.getBoundingClientRect();
    const at = part.getBoundingClientRect();
    if (turned && at.top > view.top + view.height / 3) box.scrollTop += at.top - view.top - 16;
    if (at.left < view.left || at.right > view.right) box.scrollLeft += (at.left + at.right - view.left - view.right) / 2;
    else if (at.top < view.top || at.bottom > view.bottom) box.scrollTop += (at.top + at.bottom - view.top - view.bottom) / 2;
  }

  return {
    box, idOf,
    parts: () => here.parts,
    partAt: (target) => (target instanceof Element ? target.closest<SVGGElement>("[data-st]") : null),
    theme(name) { theme = name; dress(); },
    veil(what) { if (what !== veiled) { veiled = what; dress(); } },
    show(step, level, marks) {
      const turned = turnTo(level);
      numbers ||= !!marks.place;
      for (const timed of here.timed) {
        const visible = timed.at ? timed.at.includes(`${step}`) : timed.since <= step && step <= timed.until;
        if (visible === timed.shown) continue;
        timed.shown = visible;
        timed.element.classList.toggle("ghost", !visible);
      }
      for (const part of here.parts) {
        const id = idOf(part);
        part.dataset.s = stateAt(part.dataset.st ?? "", step);
        part.classList.toggle("sel", id === marks.selected);
        part.classList.toggle("picked", marks.picked(id));
        part.classList.toggle("evidence", marks.evidence(id));
        if (numbers) number(part, marks.place?.(id) ?? 0);
        part.setAttribute("aria-hidden", String(part.dataset.s === "g"));
      }
      rove();
      focusOn(marks.selected, marks.focused);
      const innermost = (letters: string) => here.parts.filter((part) => letters.includes(part.dataset.s ?? "g")).at(-1);
      const seen = partOf(marks.selected) ?? (/[ew]/.test(turned?.dataset.s ?? "") ? undefined : turned);
      if (box.isConnected) reveal(seen ?? innermost("a") ?? innermost("ew"), !!turned && seen === turned);
    },
  };
}
