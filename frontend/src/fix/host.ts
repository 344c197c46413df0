/** Where a picture's state lives that nothing outside the page asks for. */
import type { Host } from "../ui/player";

export function plainHost(step: number): Host {
  const values: Record<string, unknown> = { step, selected: "", answer: {} };
  const callbacks = new Set<() => void>();
  return {
    get: (key) => values[key],
    set(changes) {
      const changed = Object.entries(changes).filter(([key, value]) => value !== undefined && values[key] !== value);
      for (const [key, value] of changed) values[key] = value;
      if (changed.length) for (const callback of callbacks) callback();
    },
    on: (callback) => { callbacks.add(callback); return () => callbacks.delete(callback); },
  };
}
