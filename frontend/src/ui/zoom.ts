/** How large the picture is drawn: as large as its numbers need until all of it at once, or another size, is wanted; moved by dragging; all of the screen. */
import { type IconName, iconButton } from "./dom";
import type { Picture } from "./picture";
import type { Words } from "./words";

const STEP = 1.25;
const SMALLEST = 0.1;
const LARGEST = 4;
const DRAG_PX = 4; // less is a click

export interface Zoom {
  buttons: HTMLElement[];
  /** Draw what has just been put into the box as large as everything; all of it is what was seen at once when that was wanted, no other level. */
  show(level: string): void;
  /** `+`, `-`, `0` (all of it), `1` (to read it); false for any other key. */
  key(key: string): boolean;
}

export function zoom(pic: Picture, root: () => HTMLElement, w: Words): Zoom {
  const { box } = pic;
  let scale = 1;
  let fitting = false;
  let shown: string | undefined; // the level
  const svg = () => box.firstElementChild as SVGSVGElement | null;
  const sizes = (): [number, number] => [Number(svg()?.getAttribute("width")) || 1, Number(svg()?.getAttribute("height")) || 1];

  const fit = (): number => {
    const [width, height] = sizes();
    const most = document.fullscreenElement === root() ? box.clientHeight : parseFloat(getComputedStyle(box).maxHeight);
    return Math.min(1, (box.clientWidth || width) / width, (most - 6 || height) / height);
  };
  const show = (level = shown) => {
    if (level !== shown) fitting &&= !(scale = 1); // what has just been opened is to be read
    shown = level;
    if (fitting) scale = fit();
    const drawn = svg();
    if (drawn) Object.assign(drawn.style, { width: `${sizes()[0] * scale}px`, height: `${sizes()[1] * scale}px` });
  };
  /** What lies at this place of the box stays there. */
  const to = (wanted: number, x = box.clientWidth / 2, y = box.clientHeight / 2) => {
    const next = Math.max(SMALLEST, Math.min(LARGEST, wanted));
    const grown = next / scale;
    const [left, top] = [(box.scrollLeft + x) * grown - x, (box.scrollTop + y) * grown - y];
    [scale, fitting] = [next, false];
    show();
    [box.scrollLeft, box.scrollTop] = [left, top];
  };
  /** Around what is selected, where that is in sight, else around the middle. */
  const by = (factor: number) => {
    const [view, part] = [box, box.querySelector(".nd.sel") ?? box].map((each) => each.getBoundingClientRect()) as [DOMRect, DOMRect];
    const [x, y] = [(part.left + part.right) / 2 - view.left, (part.top + part.bottom) / 2 - view.top];
    if (x >= 0 && x <= view.width && y >= 0 && y <= view.height) to(scale * factor, x, y);
    else to(scale * factor);
  };
  const fitAll = () => { fitting = true; show(); };
  const all = () => (fitting ? to(1) : fitAll());

  const KEYS: Record<string, () => void> = { "+": () => by(STEP), "=": () => by(STEP), "-": () => by(1 / STEP), 0: fitAll, 1: () => to(1) };
  const full = () => void (document.fullscreenElement ? document.exitFullscreen() : root().requestFullscreen?.().catch(() => {}));
  const button = (name: IconName, label: string, onclick: () => void) => iconButton(name, label, onclick, "sg-zm");

  box.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return; // without them the page scrolls
    event.preventDefault();
    const { left, top } = box.getBoundingClientRect();
    to(scale * (event.deltaY < 0 ? STEP : 1 / STEP), event.clientX - left, event.clientY - top);
  }, { passive: false });
  drag(box, (target) => !pic.partAt(target));

  return {
    show,
    key: (key) => { KEYS[key]?.(); return key in KEYS; },
    buttons: [button("less", w.less, KEYS["-"]!), button("more", w.more, KEYS["+"]!), button("fit", w.fit, all), button("full", w.full, full)],
  };
}

/** Move what is in the box by its paper. */
function drag(box: HTMLElement, isPaper: (target: EventTarget | null) => boolean) {
  let from: { x: number; y: number; left: number; top: number } | null = null;
  box.addEventListener("pointerdown", (event) => {
    if (event.button || event.pointerType === "touch" || !isPaper(event.target)) return; // a finger scrolls by itself
    from = { x: event.clientX, y: event.clientY, left: box.scrollLeft, top: box.scrollTop };
  });
  box.addEventListener("pointermove", (event) => {
    if (!from || Math.hypot(event.clientX - from.x, event.clientY - from.y) < DRAG_PX) return;
    box.setPointerCapture?.(event.pointerId);
    box.classList.add("held");
    box.scrollLeft = from.left + from.x - event.clientX;
    box.scrollTop = from.top + from.y - event.clientY;
  });
  for (const end of ["pointerup", "pointercancel"]) box.addEventListener(end, () => { from = null; box.classList.remove("held"); });
}
