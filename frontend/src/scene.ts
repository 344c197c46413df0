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
}

export interface Row { key: string; values: [number, string][] }
export interface Item { id: string; kind: string; label: string; born: number; rows: Row[] }
export interface Choice { key: string; label: string; misconception: string; message: string }

export interface Question {
  id: string;
  kind: "outcome" | "versions" | "leaves" | "culprit";
  prompt: string;
  truth: string;
  until_step: number;
  choices: Choice[];
  targets: [string, string][];
  right: string;
  wrong: string;
  evidence: string[];
  name: string;
  veil: "" | "leaves" | "counters";
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
}

/** What a Diagnosis says at a step: the newest one so far that isn't a mere note. */
export function lastWord(scene: Scene, step: number): string {
  const own = scene.frames[step]?.diagnosis;
  const earlier = scene.frames.slice(0, step).filter((frame) => frame.severity === "error" || frame.severity === "wrong");
  return own || earlier[earlier.length - 1]?.diagnosis || "";
}

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
