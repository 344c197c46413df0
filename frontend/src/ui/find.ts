/** Ways through a large picture: where one is, a search box, the neighbours of one part, a map. */
import { button, h, pressed, quiet, unusable } from "./dom";
import type { Drawn, Focus, Picture } from "./picture";
import { levelAt, pathTo, type Scene, search } from "../state/scene";
import type { Event } from "../state/machine";
import type { Words } from "./words";

const MANY = 24; // parts from which on a search is worth its place
const MAP_PARTS = 60; // from which on a map is drawn
const MAP_PX = 132;
const WIDE_PX = 1220; // pictures beyond these scroll in their own box
export const TALL_PX = 860;

export interface Finder { element: HTMLElement; show(drawn: Drawn, level: string, selected: string, focus: Focus, open: boolean): void }

export function finder(scene: Scene, w: Words, send: (event: Event) => void, turn: (focus: Focus) => void, mark: (ids: Set<string>) => void): Finder {
  const crumbs = h("div", { class: "sg-cr", role: "group", "aria-label": w.where });
  const found = h("output", { class: "sg-fn" });
  let until = 0;
  let place = -1;
  let seen = scene;
  let marked = false; // is anything?
  const input: HTMLInputElement = quiet(h("input", { type: "search", placeholder: w.search, "aria-label": w.search, oninput: () => { place = -1; tell(); } }));
  const tell = () => {
    const hits = search(seen, input.value, until);
    found.textContent = !input.value.trim() ? "" : hits.length && place < 0 ? `${hits.length} ⏎` : `${place + 1} / ${hits.length}`;
    mark(new Set(hits.flatMap(({ id, level }) => [id, ...pathTo(seen, level).map((each) => each.id)]))); // or the closed box that holds it
    return hits;
  };
  const jump = (by: number) => {
    const hits = tell();
    if (!hits.length) return;
    place = (place + by + hits.length + (place < 0 && by < 0 ? 1 : 0)) % hits.length;
    send({ kind: "find", id: hits[place]?.id ?? "" });
    tell();
  };
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    event.stopPropagation();
    jump(event.shiftKey ? -1 : 1);
  });
  const ways = (["near", "path"] as const).map((name) => ({ name, way: button(w[name], () => turn(name), { class: "sg-nr" }) }));
  const element = h("div", { class: "sg-nav" }, crumbs, ...ways.map(({ way }) => way), h("span", { class: "sg-se" }, input, found));
  const large = scene.passes.length + scene.levels.length > 0 || scene.items.length > MANY;
  element.hidden = !large;
  let told = "?";
  return {
    element,
    show(drawn, level, selected, focus, open) {
      until = open ? drawn.step : scene.frames.length;
      seen = drawn.scene;
      if (!large) return;
      if (input.value || marked) tell();
      marked = !!input.value;
      for (const { name, way } of ways) {
        const hidden = open && name === "path"; // the way would tell who gets a gradient
        unusable(way, !selected || hidden);
        way.title = hidden ? w.hidden : selected ? "" : w.selectFirst;
        pressed(way, focus === name);
      }
      const name = `${drawn.place} ${level}`;
      if (name === told) return;
      told = name;
      const path = seen.levels.length ? pathTo(seen, level) : [];
      crumbs.replaceChildren(...path.flatMap((here, k) => {
        const last = k === path.length - 1;
        const name = here.label || w.whole;
        const crumb = last ? h("b", { "aria-current": "location" }, name) : button(name, () => send({ kind: "open", level: here.id }));
        return k ? [" › ", crumb] : [crumb];
      }));
    },
  };
}

/** Where a part stands, as one string of moves: its own inside those of the frames around it. */
function placeOf(part: Element): string {
  let moves = "";
  for (let here: Element | null | undefined = part; here; here = here.parentElement?.closest("[transform]")) moves = `${here.getAttribute("transform") ?? ""} ${moves}`;
  return moves;
}

/** What tells that a picture doesn't fit: at each side on which there is more it fades, and a small map beside a large one, in which a click scrolls there. The box itself scrolls by keyboard. */
export function minimap(pic: Picture): { element: HTMLElement; edges: HTMLElement; show(scene: Scene, level: string): void; follow(): void } {
  const element = h("div", { class: "sg-map", "aria-hidden": "true", hidden: true });
  const { box } = pic;
  const frame = h("i", {});
  const edges = h("div");
  let drawn: Element | undefined;
  const follow = () => {
    const { scrollLeft, scrollTop, scrollWidth, scrollHeight, clientWidth, clientHeight } = box;
    const share = (part: number, whole: number) => `${(100 * part) / whole}%`; // moved by `translate`, which lays nothing out
    const more = [scrollLeft, scrollTop, scrollWidth - clientWidth - scrollLeft, scrollHeight - clientHeight - scrollTop];
    edges.className = more.map((px, k) => px > 1 && "ltrb"[k]).join(" ");
    Object.assign(edges.style, { width: `${clientWidth}px`, height: `${clientHeight}px` });
    Object.assign(frame.style, { width: share(clientWidth, scrollWidth), height: share(clientHeight, scrollHeight), translate: `${share(scrollLeft, clientWidth)} ${share(scrollTop, clientHeight)}` });
  };
  box.addEventListener("scroll", follow);
  element.addEventListener("pointerdown", (event) => {
    const { left, top, width, height } = element.getBoundingClientRect();
    box.scrollLeft = ((event.clientX - left) / width) * box.scrollWidth - box.clientWidth / 2;
    box.scrollTop = ((event.clientY - top) / height) * box.scrollHeight - box.clientHeight / 2;
  });
  return {
    element, edges, follow,
    show(scene, level) {
      const { width_px, height_px } = levelAt(scene, level);
      element.hidden = pic.parts().length <= MAP_PARTS || (width_px <= WIDE_PX && height_px <= TALL_PX);
      if (element.hidden) return;
      const parts = pic.parts();
      if (pic.parts()[0] !== drawn) {
        const scale = MAP_PX / Math.max(width_px, height_px);
        const blocks = parts.map((part) => {
          const bx = part.querySelector(".bx");
          return `<rect transform="${placeOf(part)}" width="${bx?.getAttribute("width")}" height="${bx?.getAttribute("height")}"/>`;
        });
        element.innerHTML = `<svg viewBox="0 0 ${width_px} ${height_px}" width="${width_px * scale}" height="${height_px * scale}">${blocks.join("")}</svg>`;
        element.append(frame);
        drawn = parts[0];
      }
      const blocks = element.querySelectorAll("rect");
      parts.forEach((part, k) => blocks[k]?.setAttribute("class", part.dataset.s ?? ""));
    },
  };
}
