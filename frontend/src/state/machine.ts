/** The player as a pure state machine: events in, a new state out. No DOM, no clock, no model. */
import { kindOf } from "./kinds";
import { drawnAt, levelInSight, levelOf, pathTo, sameLevel, sameStep, type Scene } from "./scene";

export interface State {
  step: number;
  playing: boolean;
  selected: string;
  answered: boolean;
  /** The box that is open, "" for none. */
  level: string;
}

export type Event =
  | { kind: "go"; step: number }
  | { kind: "by"; steps: number }
  | { kind: "first" | "last" | "toggle" | "tick" | "escape" | "answered" }
  | { kind: "select" | "find"; id: string }
  | { kind: "open"; level: string }
  | { kind: "pass"; place: number }
  | { kind: "passes"; by: number };

/** The last step that may be seen: an open question hides what follows it. */
export function lastStep(scene: Scene, answered: boolean): number {
  const last = scene.frames.length - 1;
  return scene.question && !answered ? Math.min(scene.question.until_step, last) : last;
}

const clamp = (step: number, last: number) => Math.max(0, Math.min(last, Math.trunc(step) || 0));

export function reduce(scene: Scene, state: State, event: Event): State {
  const last = lastStep(scene, state.answered);
  const here = drawnAt(scene, state.step);
  const to = (wanted: number): State => {
    const step = clamp(wanted, last);
    const there = drawnAt(scene, step);
    const level = sameLevel(here.scene, there.scene, state.level);
    return { ...state, step, level: step === state.step ? level : (levelInSight(there.scene, there.step, level) ?? level) };
  };
  switch (event.kind) {
    case "go": return to(event.step);
    case "by": return to(state.step + event.steps);
    case "first": return to(0);
    case "last": return to(last);
    case "pass": return to(sameStep(scene, state.step, event.place));
    case "passes": return to(sameStep(scene, state.step, here.place + event.by));
    case "select": return { ...state, selected: state.selected === event.id ? "" : event.id };
    case "open": return { ...state, level: event.level, selected: "" };
    case "find": return { ...state, level: levelOf(here.scene, event.id, state.level) ?? state.level, selected: event.id };
    case "escape":
      if (state.selected || state.playing) return { ...state, selected: "", playing: false };
      return { ...state, level: pathTo(here.scene, state.level).at(-2)?.id ?? "" };
    case "toggle":
      if (state.playing) return { ...state, playing: false };
      return { ...state, playing: last > 0, step: state.step >= last ? 0 : state.step };
    case "tick":
      if (!state.playing) return state;
      return { ...to(state.step + 1), playing: state.step + 1 < last };
    case "answered": {
      const done = { ...state, answered: true, playing: false };
      return kindOf(scene.question).stays ? done : reduce(scene, done, { kind: "last" });
    }
  }
}
