/** A page without Jupyter: `play(element, scene)` with the scene inlined. */
import { type Host, mount } from "./ui/player";
import { firstLook, readScene, type Scene } from "./state/scene";

export function play(el: HTMLElement, data: Scene, step = firstLook(readScene(data))): () => void {
  const values: Record<string, unknown> = { step, selected: "", answer: {} };
  const callbacks = new Set<() => void>();
  const host: Host = {
    get: (key) => values[key],
    set(changes) {
      const changed = Object.entries(changes).filter(([key, value]) => value !== undefined && values[key] !== value);
      for (const [key, value] of changed) values[key] = value;
      if (changed.length) for (const callback of callbacks) callback();
    },
    on: (callback) => { callbacks.add(callback); return () => callbacks.delete(callback); },
  };
  return mount(el, data, host);
}
