/** The anywidget entry: the model is the host. */
import { answerCell } from "./answer/cell";
import { type Host, mount } from "./ui/player";
import type { Scene } from "./state/scene";

interface Model {
  get(key: string): unknown;
  set(key: string, value: unknown): void;
  on(event: string, callback: () => void): void;
  off(event: string, callback: () => void): void;
  save_changes(): void;
  widget_manager?: unknown;
}

const KEYS = ["step", "selected", "answer", "level", "trial"];

function hostOf(model: Model, el: HTMLElement): Host {
  let held = !el.matches(".jupyter-widgets-disconnected"); // so ipywidgets marks what no kernel holds, when it is first shown
  return {
    get: (key) => model.get(key),
    set(changes) {
      let changed = false;
      for (const [key, value] of Object.entries(changes)) {
        if (value === undefined || model.get(key) === value) continue;
        model.set(key, value);
        changed = true;
      }
      if (changed) model.save_changes();
    },
    cell: (name) => answerCell(model.widget_manager, name),
    counts: () => held,
    on(callback) {
      const left = () => { held = false; callback(); }; // a kernel that restarts, or ends, never holds it again
      for (const key of KEYS) model.on(`change:${key}`, callback);
      model.on("comm_live_update", left);
      return () => {
        for (const key of KEYS) model.off(`change:${key}`, callback);
        model.off("comm_live_update", left);
      };
    },
  };
}

export default {
  render({ model, el }: { model: Model; el: HTMLElement }) {
    let done = () => {};
    const start = () => { done(); done = mount(el, model.get("scene") as Scene, hostOf(model, el)); };
    start();
    model.on("change:scene", start);
    return () => { model.off("change:scene", start); done(); };
  },
};
