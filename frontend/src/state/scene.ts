/** What Python's `Scene.to_data()` sends. Field names are Python's. */
export type Phase = "start" | "forward" | "inplace" | "backward" | "error";
export type Severity = "error" | "wrong" | "note";

export interface Frame {
  phase: Phase;
  title: string;
  text: string;
  line: number | null;
  on: string[];
  message: string;
  diagnosis: string;
  severity: Severity | null;
  culprit?: number | null;
}

export interface Row { key: string; values: [number, string][] }
export interface Item { id: string; kind: string; label: string; born: number; rows: Row[]; level: string }
/** What is seen after opening a box. */
export interface Level { id: string; label: string; parent: string | null; body: string; width_px: number; height_px: number }
export interface Choice { key: string; label: string; misconception: string; message: string }

export interface Question {
  id: string;
  kind: string;
  prompt: string;
  truth: string;
  until_step: number;
  choices: Choice[];
  targets: [string, string][];
  right: string;
  wrong: string;
  evidence: string[];
  name: string;
  veil: "" | "leaves" | "counters" | "keeps" | "saves" | "damage";
}

export interface Scene {
  schema: number;
  uid: string;
  body: string;
  view_box: string;
  width_px: number;
  height_px: number;
  frames: Frame[];
  items: Item[];
  code: [number, string][];
  question: Question | null;
  lang: string;
  levels: Level[];
  /** What the drawings of several levels share: a part's id, and its markup at the origin. */
  parts: [string, string][];
}

const SCHEMA = 1;

/** What arrived, if it is a Scene that this player can show; what an older seegrad didn't send yet is filled in. */
export function readScene(data: unknown): Scene | null {
  const scene = data as Partial<Scene> | null | undefined;
  if (scene?.schema !== SCHEMA || typeof scene.body !== "string" || !scene.frames?.length) return null;
  return { items: [], code: [], levels: [], parts: [], question: null, width_px: 640, height_px: 200, ...scene } as unknown as Scene;
}

/** A level by its id; the outermost one where there is no such level. */
export function levelAt(scene: Scene, id: string): Level {
  return scene.levels.find((level) => level.id === id) ?? { ...scene, id: "", label: "", parent: null };
}

/** From the outermost level to this one. */
export function pathTo(scene: Scene, id: string): Level[] {
  const path: Level[] = [];
  for (let here: string | null = id; here !== null && path.length < 64; here = path[0]?.parent ?? null) path.unshift(levelAt(scene, here));
  return path;
}

/** The level to open for a part: the open one where it is drawn there or around it. */
export function levelOf(scene: Scene, id: string, open = ""): string | undefined {
  const home = scene.items.find((item) => item.id === id)?.level;
  return pathTo(scene, open).some((level) => level.id === home) ? open : home;
}

const isWrong = (frame: Frame | undefined): frame is Frame => frame?.severity === "error" || frame?.severity === "wrong";

/** Where something is wrong at a step: that has to be in sight. */
export function levelInSight(scene: Scene, step: number, open = ""): string | undefined {
  const frame = scene.frames[step];
  return (isWrong(frame) ? [...frame.on] : []).reverse().map((id) => levelOf(scene, id, open)).find((level) => level !== undefined);
}

/** Parts whose name holds the text, in the order of the program, as far as they may be known: while a question is open, none from later. */
export function search(scene: Scene, text: string, until: number): Item[] {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [];
  return scene.items.filter((item) => item.born <= until && `${item.label} ${item.rows[0]?.values[0]?.[1] ?? ""}`.toLowerCase().includes(wanted)).sort((a, b) => a.born - b.born);
}

/** The newest step so far at which something is wrong. */
export const lastWrong = (scene: Scene, step: number) => scene.frames.slice(0, step + 1).filter(isWrong).at(-1);

/** What a Diagnosis says at a step: the newest one so far that isn't a mere note. */
export const lastWord = (scene: Scene, step: number) => scene.frames[step]?.diagnosis || lastWrong(scene, step)?.diagnosis || "";

/** What a timeline says at a step. */
export function at(values: [number, string][], step: number): string | undefined {
  let found: string | undefined;
  for (const [since, value] of values) if (since <= step) found = value;
  return found;
}

/** The state letter in run lengths such as `g0 n3 a5`. */
export function stateAt(runs: string, step: number): string {
  let found = "g";
  for (const run of runs.split(" ")) if (Number(run.slice(1)) <= step) found = run[0] ?? "g";
  return found;
}
