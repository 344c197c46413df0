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
  noted?: number | null;
  fix?: Fix | null;
}

/** The line that mends what is found at a step. */
export interface Fix { where: string; before: string; after: string }

export interface Row { key: string; values: [number, string][] }
export interface Item { id: string; kind: string; label: string; born: number; rows: Row[]; level: string }
/** Numbers of a card to be walked through: `kept` is the corner of `shape` that is there. */
export interface Sheet { item: string; key: string; since: number; shape: number[]; kept: number[]; most: string; numbers: string }
/** What is seen after opening a box. */
export interface Level { id: string; label: string; parent: string | null; body: string; width_px: number; height_px: number; asked_px?: number }
export interface Choice { key: string; label: string; misconception: string; message: string; about?: string }

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

/** A stretch of steps with a picture of its own: a pass of a loop, or (number 0) what stands around it. */
export interface Pass { label: string; first: number; number: number; scene: Scene; loss: string; name?: string }

export interface Scene {
  schema: number;
  uid: string;
  body: string;
  view_box: string;
  width_px: number;
  height_px: number;
  asked_px?: number;
  frames: Frame[];
  items: Item[];
  code: [number, string][];
  question: Question | null;
  lang: string;
  levels: Level[];
  /** What the drawings of several levels share: a part's id, and its markup at the origin. */
  parts: [string, string][];
  passes: Pass[];
  /** Is a level drawn without those around it? */
  alone?: boolean;
  sheets?: Sheet[];
}

const SCHEMA = 1;

/** What arrived, if it is a Scene that this player can show; what an older seegrad didn't send yet is filled in. */
export function readScene(data: unknown): Scene | null {
  const packed = data as Packed | null | undefined;
  const scene = packed?.templates ? opened(packed) : (data as Partial<Scene> | null | undefined);
  if (scene?.schema !== SCHEMA || typeof scene.body !== "string" || !scene.frames?.length) return null;
  if (packed?.templates) return scene as Scene;
  return { items: [], code: [], levels: [], parts: [], passes: [], question: null, width_px: 640, height_px: 200, ...scene } as unknown as Scene;
}

const RECORDS = ["frames", "items", "parts"] as const;
type Packed = Record<(typeof RECORDS)[number] | "body" | "chunks", string> & { templates: string[]; drawings: string[]; levels: Level[]; passes: (Omit<Pass, "scene"> & { scene: Packed })[] };

/** A text whose gaps are filled from a row, as Python's `seegrad.model.packing` writes them. */
function filled(templates: string[], row: string): string {
  const [number, ...values] = row.split(" ");
  return templates[Number(number)]!.replace(/\ue002(\d+)\ue003/g, (_, k) => values[k]!);
}

/** A packed Scene; each of its records and bodies is read when it is asked for. */
function opened(data: Packed, texts = (rows: string) => (rows ? rows.split(";") : []).map((row) => filled(data.templates, row)), chunks = data.chunks.split(";"), drawings = data.drawings, frames?: Frame[]): Scene {
  const scene = { ...data } as unknown as Scene;
  const later = (on: object, name: string, make: () => unknown) => {
    let made: unknown;
    Object.defineProperty(on, name, { get: () => (made ??= make()) });
  };
  const drawn = (body: string) => body && body.split(" ").map((k) => texts(filled(drawings, chunks[Number(k)]!)).join("")).join("");
  for (const name of RECORDS) later(scene, name, () => (name === "frames" && frames) || texts(data[name]).map((text) => JSON.parse(text)));
  scene.levels = data.levels.map((level) => ({ ...level }));
  [data, ...data.levels].forEach(({ body }, k) => later(scene.levels[k - 1] ?? scene, "body", () => drawn(body)));
  scene.passes = data.passes.map((each, k) => ({ ...each, scene: opened(each.scene, texts, chunks, drawings, scene.frames.slice(each.first, data.passes[k + 1]?.first)) }));
  return scene;
}

/** Which pass a step belongs to: its place in the list, the Scene that shows it, the step's number there. */
export function drawnAt(scene: Scene, step: number): { place: number; scene: Scene; step: number } {
  const place = scene.passes.filter((each) => each.first <= step).length - 1;
  const here = scene.passes[place];
  return here ? { place, scene: here.scene, step: step - here.first } : { place: 0, scene, step };
}

/** The step to begin with: the newest one at which something is wrong, where there are passes, else the last. */
export function firstLook(scene: Scene | null): number {
  const last = (scene?.frames.length ?? 1) - 1;
  const wrong = scene?.passes.length ? scene.frames.map((frame) => isWrong(frame)).lastIndexOf(true) : -1;
  return wrong < 0 ? last : wrong;
}

/** The newest step with something wrong, else with a note, else the last. */
export function firstFinding(scene: Scene | null): number {
  const frames = scene?.frames ?? [];
  const found = (is: (frame: Frame) => boolean) => frames.map(is).lastIndexOf(true);
  return [found(isWrong), found((frame) => frame.severity === "note")].find((each) => each >= 0) ?? firstLook(scene);
}

/** The step of another pass that stands where this one stands in its own; its last for the last. */
export function sameStep(scene: Scene, step: number, place: number): number {
  const here = drawnAt(scene, step);
  const there = scene.passes[place];
  if (!there) return step;
  const last = there.scene.frames.length - 1;
  return there.first + (here.step === here.scene.frames.length - 1 ? last : Math.min(here.step, last));
}

/** A level by its id; the outermost one where there is no such level. While a question `asks`, as high as what is shown. */
export function levelAt(scene: Scene, id: string, asks = false): Level {
  const level = scene.levels.find((each) => each.id === id) ?? { id: "", label: "", parent: null, body: scene.body, width_px: scene.width_px, height_px: scene.height_px, asked_px: scene.asked_px };
  return asks && level.asked_px ? { ...level, height_px: level.asked_px } : level;
}

/** From the outermost level to this one. */
export function pathTo(scene: Scene, id: string): Level[] {
  const path: Level[] = [];
  for (let here: string | null = id; here !== null && path.length < 64; here = path[0]?.parent ?? null) path.unshift(levelAt(scene, here));
  return path;
}

/** A level of one pass as another pass has it: by the names on its path, since each pass counts its boxes anew; the innermost one around it that is there too. */
export function sameLevel(from: Scene, to: Scene, id: string): string {
  let found = "";
  for (const { label } of from === to ? [] : pathTo(from, id).slice(1)) {
    const next = to.levels.find((level) => level.parent === found && level.label === label);
    if (!next) break;
    found = next.id;
  }
  return from === to ? id : found;
}

/** The level to open for a part: the open one where it is drawn there or around it. */
export function levelOf(scene: Scene, id: string, open = ""): string | undefined {
  const home = scene.items.find((item) => item.id === id)?.level;
  const drawn = scene.alone ? [levelAt(scene, open)] : pathTo(scene, open);
  return drawn.some((level) => level.id === home) ? open : home;
}

export const isWrong = (frame: Frame | undefined): frame is Frame => frame?.severity === "error" || frame?.severity === "wrong";

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

/** All that was found, in the order in which it shows, each with the steps at which it does; none while a question may be open. */
export function findings(scene: Scene): { said: string; steps: number[] }[] {
  const found = new Map<string, number[]>();
  if (!scene.question) scene.frames.forEach(({ severity, diagnosis }, step) => severity && found.set(diagnosis, [...(found.get(diagnosis) ?? []), step]));
  return [...found].map(([said, steps]) => ({ said, steps }));
}

/** The newest step so far at which something is wrong. */
export const lastWrong = (scene: Scene, step: number) => scene.frames.slice(0, step + 1).filter(isWrong).at(-1);

/** What a Diagnosis says at a step: the newest one so far that isn't a mere note. */
export const lastWord = (scene: Scene, step: number) => scene.frames[step]?.diagnosis || lastWrong(scene, step)?.diagnosis || "";

/** The line that mends what the Diagnosis of a step is about. */
export const lastFix = (scene: Scene, step: number) => (scene.frames[step]?.diagnosis ? scene.frames[step]?.fix : lastWrong(scene, step)?.fix) ?? null;

/** What a timeline says at a step. */
export function at(values: [number, string][], step: number): string | undefined {
  let found: string | undefined;
  for (const [since, value] of values) if (since <= step) found = value;
  return found;
}

/** The newest sheet of each kind that an item has at a step. */
export function sheetsAt(scene: Scene, item: string, step: number): Sheet[] {
  return [...new Map((scene.sheets ?? []).filter((each) => each.item === item && each.since <= step).map((each) => [each.key, each])).values()];
}

/** The state letter in run lengths such as `g0 n3 a5`. */
export function stateAt(runs: string, step: number): string {
  let found = "g";
  for (const run of runs.split(" ")) if (Number(run.slice(1)) <= step) found = run[0] ?? "g";
  return found;
}
