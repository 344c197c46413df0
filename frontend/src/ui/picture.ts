/** One SVG with every step inside for each open box: a step only flips attributes, opening a box swaps the SVG. */
import { h, pressed, quiet } from "./dom";
import type { Mark } from "../state/kinds";
import { type Line, way } from "../state/ways";
import { isWrong, levelAt, type Scene, stateAt } from "../state/scene";
import type { Words } from "./words";

/** What is left at full strength: all, the neighbours of what is selected, the gradient's way to it. */
export type Focus = "" | "near" | "path";

/** The pass that a step belongs to, and the step's number in it. */
export interface Drawn { place: number; scene: Scene; step: number }

export interface Marks { selected: string; focus: Focus; on: string[]; /** Undefined for what can't be picked. */ picked: (id: string) => boolean | undefined; tag?: ((id: string) => string | number) | undefined; evidence: (id: string) => boolean; mark?: ((id: string) => Mark | undefined) | undefined }

export interface Picture {
  box: HTMLElement;
  /** What the signs mean: beside the box, so that it stays when the box scrolls. */
  legend: HTMLElement;
  /** The parts of the open level. */
  parts(): SVGGElement[];
  /** Those that an open question lets one pick at this step, and boxes that may hold more; from left to right, then downwards. */
  picks(): SVGGElement[];
  idOf(part: Element): string;
  partAt(target: EventTarget | null): SVGGElement | null;
  /** The line at a place or near it, since lines are thin. */
  lineAt(place: { clientX: number; clientY: number }): SVGElement | undefined;
  /** Show this line, and no other, as the one that was clicked. */
  take(line: Element | undefined): void;
  /** Hide what an open question asks for, from readers of the screen too. */
  veil(what: string): void;
  show(drawn: Drawn, level: string, marks: Marks): void;
  /** Mark these, and no others, as what was searched for. */
  hits(ids: Set<string>): void;
  /** What has to be in sight at the step, what matters most first. */
  about(): SVGGElement[];
  /** Scroll inside the box, never the page, until these parts are in sight, else what the step is about. */
  reveal(wanted?: SVGGElement[]): void;
}

interface Timed { element: SVGElement; since: number; until: number; at: string[] | undefined; shown?: boolean }
interface Wire { element: SVGElement; ends: string[]; flows: boolean }
interface Drawing { svg: SVGSVGElement; keys: SVGElement[]; timed: Timed[]; parts: SVGGElement[]; labels: string[]; wires: Wire[] }

const MARGIN_PX = 4; // half of the still image's at each side: a box that has just room for the rest needn't scroll
const AROUND_PX = 28; // a part's tags stand beside and below it
const COLUMN_PX = 80; // what stands nearer, twice, is one above the other
const NEAR_PX = [0, 2, -2, 4, -4];
const AXES = [["left", "width", "scrollLeft"], ["top", "height", "scrollTop"]] as const;

function drawing(scene: Scene, id: string): Drawing {
  const { body, width_px, label } = levelAt(scene, id);
  const shared = new Map(scene.parts);
  const inside = body.replace(/\ue001(\S+) (.*?)\ue001/g, (_, name, place) => shared.get(name)?.replace("0.0 0.0", place) ?? "");
  const box = document.createElement("div");
  box.innerHTML = `<svg class="sg-svg" width="${width_px - 2 * MARGIN_PX}" role="group">${inside}</svg>`;
  const svg = box.firstElementChild as SVGSVGElement;
  svg.setAttribute("aria-label", label || "graph");
  const last = scene.frames.length - 1;
  const legend = svg.querySelector(".legend");
  legend?.remove();
  const keys = [...(legend?.children ?? [])].map((key) => {
    const sign = `<svg viewBox="-4 -9 28 18" aria-hidden="true">${key.firstElementChild?.outerHTML}</svg>`;
    box.innerHTML = `<span class="${key.getAttribute("class")}" data-a="${(key as SVGElement).dataset.a}">${sign}${key.lastElementChild?.innerHTML}</span>`;
    return box.firstElementChild as SVGElement;
  });
  const timed = [...keys, ...svg.querySelectorAll<SVGElement>("[data-a],[data-b],[data-at]")].map((element) => ({
    element, since: Number(element.dataset.a ?? 0), until: Number(element.dataset.b ?? last), at: element.dataset.at?.split(" "),
  }));
  const parts = [...svg.querySelectorAll<SVGGElement>("[data-st]")];
  for (const part of parts) {
    quiet(part);
    for (const kid of part.children) if (kid.tagName !== "title") kid.setAttribute("aria-hidden", "true");
  }
  const labels = parts.map((part) => nameOf(part)?.textContent ?? "");
  const wires = [...svg.querySelectorAll<SVGElement>("[data-w]")].map((element) => ({ element, ends: element.dataset.w?.split(" ") ?? [], flows: element.matches(".e:not(.al, .lo)") }));
  return { svg, keys, timed, parts, labels, wires };
}

/** The learner's own number on a part, none for 0; what it was chosen for, at its upper edge. */
function tag(part: SVGGElement, said: string | number) {
  part.querySelector(":scope > .qn")?.remove();
  if (!said) return;
  const named = typeof said === "string";
  const halo = part.querySelector(":scope > .halo");
  const [x, y, width] = ["x", "y", "width"].map((side) => (named && Number(halo?.getAttribute(side))) || 0) as [number, number, number];
  part.insertAdjacentHTML("beforeend", `<text class="qn${named ? " qe" : ""}" x="${x + width / 2}" y="${y + 5}" aria-hidden="true"></text>`);
  part.lastElementChild!.textContent = `${said}`;
}

/** Signs that differ in form, not in colour alone: a tick, a cross, a ring around nothing. */
export const SIGNS: Record<Mark, string> = { right: "✓", wrong: "✗", missed: "○" };

/** What became of a part that was picked, or that had to be: a sign at its corner. */
function sign(part: SVGGElement, mark: Mark | undefined) {
  if (part.dataset.m === mark) return;
  part.querySelector(":scope > .qs")?.remove();
  if (!mark) { delete part.dataset.m; return; }
  part.dataset.m = mark;
  const halo = part.querySelector(":scope > .halo");
  const [x, y] = ["x", "y"].map((side) => Number(halo?.getAttribute(side)) || 0);
  part.insertAdjacentHTML("beforeend", `<g class="qs" aria-hidden="true" transform="translate(${x! + 4} ${y! + 4})"><circle r="9.5"/><text y="4.5">${SIGNS[mark]}</text></g>`);
}

/** A part is called by its `<title>`: a label beside the text that it shows would be a second name. */
const nameOf = (part: Element) => part.querySelector(":scope > title");

export function picture(scene: Scene, w: Words): Picture {
  const box = h("div", { class: "sg-cv" });
  const legend = h("div", { class: "sg-svg sg-lg" });
  const drawings = new Map<string, Drawing>();
  let here: Drawing;
  let open: string | undefined;
  let shown = ""; // the pass and level whose drawing is in the box
  let veiled = "";
  let about: SVGGElement[] = []; // what a step is about, what matters most first
  let opened = false; // has that just been opened or closed?
  let tagged = false; // is anything written on parts that are picked?
  let signed = false; // has any part had a sign?
  let marked: Marks["mark"];
  const idOf = (part: Element) => part.id.slice(scene.uid.length + 1);
  const isThere = (part: SVGGElement) => part.dataset.s !== "g";
  const isActive = (part: SVGGElement) => "aew".includes(part.dataset.s!);
  const partOf = (id: string) => here.parts.find((part) => idOf(part) === id);

  function turnTo({ place, scene }: Drawn, level: string) {
    const name = `${place} ${level}`;
    if (name === shown) return undefined;
    const closed = level === open ? undefined : open;
    const focused = box.contains(document.activeElement) ? document.activeElement : null;
    here = drawings.get(name) ?? drawing(scene, level);
    drawings.set(name, here);
    const again = level === open && focused?.closest("[data-st]") ? partOf(idOf(focused)) : undefined;
    [open, shown] = [level, name];
    box.replaceChildren(here.svg);
    legend.replaceChildren(...here.keys);
    dress();
    // the head of the frame that has opened, or the box that has closed
    const turned = partOf(level) ?? partOf(closed ?? "");
    if (focused) (again ?? turned)?.focus();
    return closed === undefined ? undefined : turned;
  }

  /** What an open question hides, and what became of an answer's parts. */
  function dress() {
    here.parts.forEach((part, k) => {
      const name = nameOf(part);
      const became = marked?.(idOf(part));
      if (name) name.textContent = `${(veiled ? here.labels[k]?.split(",")[0] : here.labels[k]) ?? ""}${became ? `, ${w[became]}` : ""}`;
    });
  }

  /** One part takes the Tab key, the one with the focus or what the step is about, and never one that isn't there yet; a focus that would be lost moves to it. */
  function rove() {
    const there = here.parts.filter(isThere);
    const focused = here.parts.find((part) => part === document.activeElement);
    const stop = [focused, picks()[0] ?? about[0]].find((part) => part && there.includes(part)) ?? there[0];
    for (const part of there) part.setAttribute("tabindex", part === stop ? "0" : "-1");
    if (focused !== stop && focused) stop?.focus();
    for (const part of here.parts) if (!isThere(part)) part.removeAttribute("tabindex");
  }

  function focusOn(id: string, focus: Focus) {
    here.svg.classList.toggle("foc", !!focus && !!partOf(id));
    if (!focus) return;
    const root = here.parts.find((part) => part.matches(".root"));
    const dead = here.parts.filter((part) => part.matches(".plain, .op")).map(idOf); // what needs no gradient
    const lines = here.wires.filter(({ flows, ends }) => flows && !ends.some((end) => dead.includes(end))).map(({ ends }) => ends as unknown as Line);
    const near = focus === "path" && root ? way(lines, idOf(root), id) : new Set(here.wires.flatMap(({ ends }) => (ends.includes(id) ? ends : id)));
    for (const { element, ends } of here.wires) element.classList.toggle("near", ends.every((end) => near.has(end)) && (focus === "path" || ends.includes(id)));
    for (const part of here.parts) part.classList.toggle("near", near.has(idOf(part)));
  }

  /** What a step is about: a part, then what else is active, then what stands at the other ends of its lines. */
  function around(part: SVGGElement | undefined, on: string[]): SVGGElement[] {
    if (!part) return [];
    const id = idOf(part);
    const near = here.wires.flatMap(({ ends }) => (ends.includes(id) ? ends : []));
    const others = [...on, ...near].flatMap((each) => partOf(each) ?? []);
    return [part, ...others.sort((one, other) => Number(isActive(other)) - Number(isActive(one)))].filter(isThere);
  }

  const picks = () => {
    const asked = here.svg.querySelector("[aria-pressed]") ? here.parts.filter((part) => isThere(part) && part.matches("[aria-pressed],[data-open],[data-goto]")) : [];
    return asked.sort((one, other) => {
      const a = one.getBoundingClientRect();
      const b = other.getBoundingClientRect();
      const right = a.left + a.right - b.left - b.right;
      return Math.abs(right) > COLUMN_PX ? right : a.top - b.top;
    });
  };
  const inView = () => (opened ? about.slice(0, 1) : about);

  return {
    box, legend, idOf,
    parts: () => here.parts,
    picks,
    partAt: (target) => (target instanceof Element ? target.closest<SVGGElement>("[data-st]") : null),
    lineAt({ clientX, clientY }) {
      const root = box.getRootNode() as Document;
      const near = NEAR_PX.flatMap((by) => [[by, 0], [0, by]]) as [number, number][];
      return near.flatMap(([x, y]) => root.elementsFromPoint(clientX + x, clientY + y)).find((each) => each.matches("[data-t]:not(.ghost)")) as SVGElement | undefined;
    },
    take(line) { for (const { element } of here.wires) element.classList.toggle("sel", element === line); },
    veil(what) { if (what !== veiled) { veiled = what; dress(); } },
    show(drawn, level, marks) {
      const { step } = drawn;
      const turned = turnTo(drawn, level);
      const asks = !!box.closest("[data-asks]");
      const { width_px, height_px } = levelAt(drawn.scene, level, asks);
      here.svg.setAttribute("viewBox", `${MARGIN_PX} 0 ${width_px - 2 * MARGIN_PX} ${height_px}`);
      here.svg.setAttribute("height", `${height_px}`);
      tagged ||= !!marks.tag;
      signed ||= !!marks.mark;
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
        pressed(part, isThere(part) ? marks.picked(id) : undefined);
        part.classList.toggle("evidence", marks.evidence(id));
        if (tagged) tag(part, marks.tag?.(id) ?? "");
        if (signed) sign(part, marks.mark?.(id));
        part.setAttribute("aria-hidden", `${part.dataset.s === "g"}`);
      }
      if (signed && marked !== marks.mark) { marked = marks.mark; dress(); }
      focusOn(marks.selected, marks.focus);
      const innermost = (letters: string) => here.parts.filter((part) => letters.includes(part.dataset.s ?? "g")).at(-1);
      const seen = partOf(marks.selected) ?? (/[ew]/.test(turned?.dataset.s ?? "") ? undefined : turned);
      const victim = innermost("ew");
      const [active, wrong] = [innermost("a"), isWrong(drawn.scene.frames[step]) && !asks];
      const red = here.wires.flatMap(({ element, ends }) => (element.matches(".eb:not(.ghost)") ? ends.map(partOf) : [])); // what was saved
      const harm = here.parts.filter((part) => part.matches(".hm:not([data-s=g])")); // the write that did it
      about = seen || !wrong ? around(seen ?? active ?? victim, marks.on) : [victim, ...red, ...harm, ...marks.on.map(partOf), active].flatMap((part) => part ?? []);
      opened = !!turned && seen === turned;
      rove();
    },
    hits(ids) { for (const part of here.parts) part.classList.toggle("hit", ids.has(idOf(part))); },
    about: inView,
    reveal(wanted = inView()) {
      if (!wanted.length) return;
      const view = box.getBoundingClientRect();
      const places = wanted.map((part) => [part.getBoundingClientRect(), isActive(part) ? 0 : 2 * AROUND_PX] as const); // what is active may fill the box
      for (const [side, size, scroll] of AXES) {
        let from = Infinity;
        let to = -from;
        for (const [place, spare] of places) {
          const a = Math.min(from, place[side]);
          const b = Math.max(to, place[side] + place[size]);
          if (to < from || b - a < view[size] - spare) [from, to] = [a, b];
        }
        const start = view[side];
        const end = start + view[size];
        if (opened && size === "height" && from > start + view[size] / 3) to = (from -= AROUND_PX) + view[size]; // it has much below it
        if (from < start + AROUND_PX || to > end - AROUND_PX) box[scroll] += (from + to - start - end) / 2;
      }
    },
  };
}
