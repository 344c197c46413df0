/** The site's pages: pictures that step, and programs whose lines are flipped without a kernel. The player is a script of its own. */
import type { Scene } from "./state/scene";

declare const seegrad: { play(el: HTMLElement, scene: Scene, step?: number): () => void; found(scene: Scene): number };

/** What came of one choice: the table's cells as HTML, made when the site was built; a word for who hears the page. */
interface Play { rows: string[]; says: string; scene: Scene }

const read = (el: Element): Scene => JSON.parse(el.querySelector('script[type="application/json"]')?.textContent ?? "null") as Scene;

/** All choices of a program, which are packed in its page: unpacked they are ten times as long. */
function unpacked(el: Element): Promise<Record<string, Play>> {
  const packed = atob(el.querySelector('script[type="application/gzip"]')?.textContent ?? "");
  const stream = new Blob([Uint8Array.from(packed, (one) => one.charCodeAt(0))]).stream();
  return new Response(stream.pipeThrough(new DecompressionStream("gzip"))).json() as Promise<Record<string, Play>>;
}

function picture(el: HTMLElement): (scene: Scene) => void {
  let leave = () => {};
  return (scene) => {
    leave();
    el.replaceChildren();
    leave = seegrad.play(el, scene, seegrad.found(scene));
  };
}

async function program(el: HTMLElement): Promise<void> {
  const plays = await unpacked(el);
  const form = el.querySelector("form");
  const said = el.querySelector('[role="status"]');
  const both = el.querySelector<HTMLInputElement>(".sw-both input");
  const cells = [...el.querySelectorAll<HTMLElement>(".sw-now")];
  const [before, after] = [...el.querySelectorAll<HTMLElement>(".sw-picture")];
  const first = Object.values(plays)[0];
  if (!form || !both || !before || !after || !first) return;
  const [drawBefore, drawAfter] = [picture(before), picture(after)];
  let shown: Play | undefined;
  const show = (loud: boolean) => {
    const play = plays[[...new FormData(form).values()].join(",")] ?? first;
    if (play === shown) return;
    shown = play;
    el.classList.toggle("sw-as-first", play === first);
    cells.forEach((cell, k) => {
      cell.innerHTML = play.rows[k] ?? "";
      cell.classList.toggle("sw-other", play.rows[k] !== first.rows[k]);
    });
    drawAfter(play.scene);
    if (loud && said) said.textContent = play.says;
  };
  form.addEventListener("change", () => show(true));
  for (const button of form.querySelectorAll("button")) button.addEventListener("click", () => {
    const chosen = button.dataset.choice?.split(",") ?? [];
    form.querySelectorAll("fieldset").forEach((line, k) => {
      for (const option of line.querySelectorAll("input")) option.checked = option.value === chosen[k];
    });
    show(true);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  both.addEventListener("change", () => {
    before.hidden = !both.checked;
    if (both.checked && !before.firstChild) drawBefore(first.scene);
  });
  show(false);
}

const NARROW_PX = 600;
for (const parts of document.querySelectorAll<HTMLDetailsElement>(".sw-parts")) parts.open = innerWidth > NARROW_PX;
for (const el of document.querySelectorAll<HTMLElement>(".picture")) {
  const scene = read(el);
  el.replaceChildren();
  seegrad.play(el, scene);
}
for (const el of document.querySelectorAll<HTMLElement>(".program")) void program(el);
