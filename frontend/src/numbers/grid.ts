/** A walk through a tensor's numbers: where one is, and where a key leads. */
import type { Sheet } from "../state/scene";

export interface Place { slice: number; row: number; column: number }
/** A tensor as slices of rows; a single row is cut into lines of LINE. */
export interface Grid { numbers: string[]; slices: number; rows: number; columns: number; most: number; isRow: boolean; lead: number[] }

export const LINE = 8;

export function gridOf({ numbers, kept, most }: Sheet): Grid {
  const found = numbers.split(" ");
  const isRow = kept.length < 2;
  const columns = isRow ? Math.min(LINE, found.length) : kept.at(-1)!;
  const rows = isRow ? Math.ceil(found.length / columns) : kept.at(-2)!;
  return { numbers: found, slices: isRow ? 1 : found.length / rows / columns, rows, columns, most: Number(most), isRow, lead: kept.slice(0, -2) };
}

/** A number's place in row-major order. */
export const flat = (grid: Grid, { slice, row, column }: Place) => (slice * grid.rows + row) * grid.columns + column;

const placed = (grid: Grid, at: number): Place => {
  const row = Math.floor(at / grid.columns);
  return { slice: Math.floor(row / grid.rows), row: row % grid.rows, column: at % grid.columns };
};

/** The index as Python writes it. */
export function index(grid: Grid, place: Place): string {
  if (grid.isRow) return `[${flat(grid, place)}]`;
  return `[${[...lead(grid, place.slice), place.row, place.column].join(", ")}]`;
}

/** The first dimensions' part of the index. */
export function lead(grid: Grid, slice: number): number[] {
  let rest = slice;
  return [...grid.lead].reverse().map((side) => { const here = rest % side; rest = Math.floor(rest / side); return here; }).reverse();
}

/** How strong a colour is, from -1 to 1; NaN for what has none. */
export function heat(grid: Grid, number: string): number {
  const value = Number(number.replace("inf", "Infinity").replace(/^True$/, "1").replace(/^False$/, "0"));
  return Number.isFinite(value) ? (grid.most ? Math.max(-1, Math.min(1, value / grid.most)) : 0) : NaN;
}

/** Where the next NaN or infinity is, round and round; undefined where there is none. */
export function nextBroken(grid: Grid, place: Place): Place | undefined {
  const broken = grid.numbers.flatMap((number, k) => (Number.isNaN(heat(grid, number)) ? k : []));
  const to = broken.find((k) => k > flat(grid, place)) ?? broken[0];
  return to === undefined ? undefined : placed(grid, to);
}

/** Where a key leads; undefined for a key that isn't one of the walk's. */
export function walk(grid: Grid, place: Place, key: string, ctrl: boolean, page: number): Place | undefined {
  const { slices, rows, columns } = grid;
  const to = { ...place };
  const turns = slices > 1;
  if (key === "ArrowLeft") to.column--;
  else if (key === "ArrowRight") to.column++;
  else if (key === "ArrowUp") to.row--;
  else if (key === "ArrowDown") to.row++;
  else if (key === "Home") { to.column = 0; if (ctrl) to.row = 0; }
  else if (key === "End") { to.column = columns - 1; if (ctrl) to.row = rows - 1; }
  else if (key === "PageUp") turns ? to.slice-- : (to.row -= page);
  else if (key === "PageDown") turns ? to.slice++ : (to.row += page);
  else if (key === "n") return nextBroken(grid, place) ?? place;
  else return undefined;
  const within = (value: number, count: number) => Math.max(0, Math.min(count - 1, value));
  const found = { slice: within(to.slice, slices), row: within(to.row, rows), column: within(to.column, columns) };
  return flat(grid, found) < grid.numbers.length ? found : placed(grid, grid.numbers.length - 1);
}
