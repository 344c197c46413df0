/** A tensor's numbers as a grid that is walked by keys: a window of rows and columns around where one is. */
import { flat, type Grid, gridOf, heat, index, lead, LINE, nextBroken, type Place, walk } from "./grid";
import type { Sheet } from "../state/scene";
import { button, h, quiet } from "../ui/dom";
import type { Words } from "../ui/words";

const ROWS = 8;
const CELL_PX = 56;
const HEAD_PX = 60; // the row's number, and the padding
const STRONG = 55; // per cent of a colour behind a number, so that the number stays readable

/** The sheets of what is selected; each remembers where one was and whether it's open. */
export function sheets(w: Words): (found: Sheet[]) => HTMLElement[] {
  const places = new Map<string, Place>();
  const open = new Set<string>();
  return (found) => found.map((sheet) => one(sheet, w, places, open));
}

function one(sheet: Sheet, w: Words, places: Map<string, Place>, open: Set<string>): HTMLElement {
  const name = `${sheet.item} ${sheet.key}`;
  const shape = `(${sheet.shape.join(", ")}${sheet.shape.length === 1 ? "," : ""})`;
  const box = quiet(h("details", { class: "sg-nb" }));
  box.append(quiet(h("summary", {}, `${sheet.key}: ${w.numbers} `, h("i", {}, shape))));
  box.open = open.has(name);
  let grid: Grid | undefined;
  const table = h("table", { role: "grid", "aria-label": `${sheet.key} ${shape}` });
  const where = h("output", {});
  const slice = h("span", {});
  const step = (label: string, text: string, key: string) => button(text, () => go(key, false, false), { title: label, "aria-label": label });
  const now = () => places.get(name) ?? { slice: 0, row: 0, column: 0 };
  const go = (key: string, ctrl: boolean, focus: boolean) => {
    const to = grid && walk(grid, now(), key, ctrl, ROWS);
    if (!to) return false;
    places.set(name, to);
    draw(focus);
    return true;
  };
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return; // the player's
    event.stopPropagation();
    if (table.contains(event.target as Node) && go(event.key, event.ctrlKey || event.metaKey, true)) event.preventDefault();
  });
  box.addEventListener("toggle", () => {
    open[box.open ? "add" : "delete"](name);
    if (box.open) fill();
  });
  if (box.open) queueMicrotask(fill); // it stands somewhere by then, and has a width

  function fill() {
    if (!grid) {
      grid = gridOf(sheet);
      const { slices, most } = grid;
      const tools = h("p", { class: "sg-nt" }, where);
      if (slices > 1) tools.append(step(w.prevSlice, "‹", "PageUp"), slice, step(w.nextSlice, "›", "PageDown"));
      if (nextBroken(grid, now())) tools.append(step(w.nextBroken, w.nextBroken, "n"));
      tools.append(h("span", { class: "sg-sc" }, `−${most}`, h("i", {}), `${most}`));
      box.append(tools, table);
      if (`${sheet.kept}` !== `${sheet.shape}`) box.append(h("p", {}, `${w.corner} [${sheet.kept.map((side) => `:${side}`).join(", ")}]`));
    }
    draw(false);
  }

  function draw(focus: boolean) {
    if (!grid) return;
    const { rows, columns, numbers, isRow } = grid;
    const at = now();
    const width = isRow ? LINE : Math.max(3, Math.min(16, Math.floor((box.clientWidth - HEAD_PX) / CELL_PX) || LINE));
    const top = Math.floor(at.row / ROWS) * ROWS;
    const left = Math.floor(at.column / width) * width;
    const until = { row: Math.min(rows, top + ROWS), column: Math.min(columns, left + width) };
    const head = h("tr", {}, h("td", {}));
    for (let column = left; column < until.column; column++) head.append(h("th", { scope: "col" }, isRow ? `+${column}` : `${column}`));
    const body: Node[] = [head];
    for (let row = top; row < until.row; row++) {
      const line = h("tr", { "aria-rowindex": row + 1 }, h("th", { scope: "row" }, `${isRow ? row * columns : row}`));
      for (let column = left; column < until.column; column++) {
        const place = { slice: at.slice, row, column };
        const number = numbers[flat(grid, place)];
        if (number !== undefined) line.append(cell(grid, place, number, row === at.row && column === at.column));
      }
      body.push(line);
    }
    table.setAttribute("aria-rowcount", `${rows}`);
    table.setAttribute("aria-colcount", `${columns}`);
    table.replaceChildren(...body);
    where.textContent = `${index(grid, at)} = ${numbers[flat(grid, at)]}`;
    slice.textContent = `[${[...lead(grid, at.slice), ":", ":"].join(", ")}]`;
    if (focus) table.querySelector<HTMLElement>("[tabindex='0']")?.focus();
  }

  function cell(grid: Grid, place: Place, number: string, here: boolean): HTMLElement {
    const strength = heat(grid, number);
    const made = quiet(h("td", { role: "gridcell", tabindex: here ? 0 : -1, "aria-label": `${index(grid, place)} ${number}`, onclick: () => { places.set(`${sheet.item} ${sheet.key}`, place); draw(true); } }, number.replace("-", "−")));
    if (Number.isNaN(strength)) made.className = "nf";
    else made.style.background = `color-mix(in srgb, var(--h${strength < 0 ? "n" : "p"}) ${Math.round(Math.abs(strength) * STRONG)}%, transparent)`;
    return made;
  }

  return box;
}
