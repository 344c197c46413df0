/** Small pieces of DOM. */
type Attributes = Record<string, string | number | boolean | ((event: never) => void)>;

export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...kids: (Node | string)[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value as EventListener);
    else if (value !== false) element.setAttribute(name, value === true ? "" : `${value}`);
  }
  element.append(...kids);
  return element;
}

const ICONS = {
  first: "M3 3h2v10H3zM13 3v10L6 8z", prev: "M12 3v10L4 8z", play: "M4 2.5v11L13.5 8z",
  pause: "M3.5 3h3v10h-3zM9.5 3h3v10h-3z", next: "M4 3v10l8-5z", last: "M11 3h2v10h-2zM3 3v10l7-5z",
  less: "M3 7h10v2H3z", more: "M7 3h2v4h4v2H9v4H7V9H3V7h4z", fit: "M1 3h14v10H1zM3 5v6h10V5zM5 7h6v2H5z", save: "M7 2h2v5h3l-4 4-4-4h3zM2 12h12v2H2z", full: "M2 2h5v2H4v3H2zM9 2h5v5h-2V4H9zM2 9h2v3h3v2H2zM12 9h2v5H9v-2h3z",
};
export type IconName = keyof typeof ICONS;
export const icon = (name: IconName) => `<svg viewBox="0 0 16 16" aria-hidden="true"><path d="${ICONS[name]}"/></svg>`;

/** JupyterLab looks at the focused element first, in the capture phase: the opt-out has to sit on every one of them. */
export function quiet<T extends Element>(element: T): T {
  element.setAttribute("data-lm-suppress-shortcuts", "true");
  return element;
}

export const button = (text: string, onclick: () => void, more: Attributes = {}) => quiet(h("button", { type: "button", onclick, ...more }, text));

/** A button that shows a sign, and is called by its label. */
export function iconButton(name: IconName, label: string, onclick: () => void, kind = ""): HTMLButtonElement {
  const made = button("", onclick, { class: kind, title: label, "aria-label": label });
  made.innerHTML = icon(name);
  return made;
}

/** A button that does nothing now may have the focus, and keeps it. */
export const unusable = (button: HTMLElement, is: boolean) => button.setAttribute("aria-disabled", `${is}`);

/** Of what can be pressed, whether it is; nothing of anything else. */
export const pressed = (element: Element | null, is: boolean | undefined) => (is === undefined ? element?.removeAttribute("aria-pressed") : element?.setAttribute("aria-pressed", `${is}`));

/** A box whose inside doesn't fit scrolls by keyboard too: by what takes the Tab key in it, else by itself; never so that the focus is lost. */
export function reachable(box: HTMLElement) {
  if (!box.querySelector("[tabindex='0']") && (box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight)) quiet(box).setAttribute("tabindex", "0");
  else if (!box.matches(":focus")) box.removeAttribute("tabindex");
}

/** Dark or light is read off the page itself, so it is right in any notebook, static page or slide. */
export function isDark(element: Element): boolean {
  let here: Element | null = element.parentElement;
  while (here) {
    const [r, g = 0, b = 0, a = 1] = getComputedStyle(here).backgroundColor.match(/[\d.]+/g)?.map(Number) ?? [];
    if (r !== undefined && a > 0.5) return 2 * r + 7 * g + b < 1280; // as bright as they seem
    const root = here.getRootNode();
    here = here.parentElement ?? (root instanceof ShadowRoot ? root.host : null);
  }
  return false;
}

/** Call back now and whenever the page's theme may have changed. */
export function watchTheme(element: Element, change: (theme: "dark" | "light") => void): () => void {
  const tell = () => change(isDark(element) ? "dark" : "light");
  const observer = new MutationObserver(tell);
  for (const node of [document.documentElement, document.body]) observer.observe(node, { attributes: true }); // each host has an attribute of its own
  const scheme = window.matchMedia?.("(prefers-color-scheme: dark)");
  scheme?.addEventListener("change", tell);
  tell();
  requestAnimationFrame(tell);
  return () => { observer.disconnect(); scheme?.removeEventListener("change", tell); };
}
