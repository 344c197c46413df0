/** The picture as a file, at the step and in the theme that are on screen: SVG that stands alone, or PNG of it. */
import { button, h, iconButton } from "../ui/dom";
import type { Words } from "../ui/words";

const SVG = "http://www.w3.org/2000/svg";
const PNG_SCALE = 2;
const MOST_PX = 16384; // a side of a canvas

export interface Save {
  element: HTMLElement;
  /** While a question is open nothing is saved: a file holds what the picture only hides. */
  show(asks: boolean): void;
}

export function save(svg: () => SVGSVGElement | null, root: () => HTMLElement, w: Words): Save {
  const named = (kind: string) => `${(document.title || "seegrad").replace(/[^\p{L}\p{N}._-]+/gu, "_")}.${kind}`;
  const asFile = (make: (drawn: SVGSVGElement) => void) => () => { const drawn = svg(); if (drawn) make(drawn); close(); };
  const choice = h("span", { class: "sg-sv", hidden: true },
    button("SVG", asFile((drawn) => download(named("svg"), new Blob([standalone(drawn, root())], { type: "image/svg+xml" })))),
    button("PNG", asFile((drawn) => void raster(drawn, root()).then((blob) => blob && download(named("png"), blob)))));
  const menu = iconButton("save", w.save, () => set(!!choice.hidden), "sg-zm");
  const element = h("span", { class: "sg-sm", onkeydown: (event: KeyboardEvent) => { if (event.key === "Escape" && !choice.hidden) { close(); event.stopPropagation(); } } }, menu, choice);
  const elsewhere = (event: Event) => { if (!event.composedPath().includes(element)) set(false); };
  const set = (open: boolean) => {
    choice.hidden = !open;
    menu.setAttribute("aria-expanded", `${open}`);
    for (const kind of ["pointerdown", "focusin"]) document[open ? "addEventListener" : "removeEventListener"](kind, elsewhere);
  };
  const close = () => { set(false); menu.focus(); };
  set(false);
  return {
    element,
    show: (asks) => { menu.disabled = asks; if (asks) set(false); },
  };
}

/** The drawing with its style, which asks for nothing: the rules that speak of it, and what `.sg` says of the moment. */
export function standalone(drawn: SVGSVGElement, root: HTMLElement): string {
  const [width, height] = size(drawn);
  const picture = drawn.cloneNode(true) as SVGSVGElement;
  picture.removeAttribute("style");
  picture.querySelectorAll("[tabindex]").forEach((part) => part.removeAttribute("tabindex"));
  const file = part("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "sg" });
  Object.assign(file.dataset, root.dataset);
  const paper = part("rect", { width, height, fill: getComputedStyle(drawn).getPropertyValue("--bg").trim() || "#fff" });
  const style = part("style", {});
  style.textContent = rules(root.getRootNode() as Document | ShadowRoot);
  file.append(style, paper, picture);
  return new XMLSerializer().serializeToString(file);
}

function part(tag: string, attributes: Record<string, string | number>): SVGElement {
  const made = document.createElementNS(SVG, tag) as SVGElement;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, `${value}`);
  return made;
}

const size = (drawn: SVGSVGElement) => ["width", "height"].map((name) => Number(drawn.getAttribute(name)) || 1) as [number, number];

function rules(page: Document | ShadowRoot): string {
  const found: string[] = [];
  for (const sheet of [...page.styleSheets, ...(page.adoptedStyleSheets ?? [])]) {
    try {
      for (const rule of sheet.cssRules) if (rule.cssText.includes(".sg-svg")) found.push(rule.cssText);
    } catch { /* another site's sheet: none of ours */ }
  }
  return found.join("\n");
}

async function raster(drawn: SVGSVGElement, root: HTMLElement): Promise<Blob | null> {
  const image = new Image();
  image.src = `data:image/svg+xml,${encodeURIComponent(standalone(drawn, root))}`;
  await image.decode();
  const [width, height] = size(drawn);
  const scale = Math.min(PNG_SCALE, MOST_PX / Math.max(width, height));
  const canvas = Object.assign(document.createElement("canvas"), { width: width * scale, height: height * scale });
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

function download(name: string, blob: Blob) {
  const url = URL.createObjectURL(blob);
  const link = h("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
