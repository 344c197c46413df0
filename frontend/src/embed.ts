/** An offline host for saved widgets in pages that nbconvert writes: no require.js, no html-manager, no network. */
interface Saved { model_name: string; state: Record<string, unknown> }
interface Live {
  get(key: string): unknown;
  set(key: string | Record<string, unknown>, value?: unknown): void;
  on(event: string, callback: () => void): void;
  off(event?: string, callback?: () => void): void;
  save_changes(): void;
  send(): void;
}
interface Entry {
  initialize?(context: { model: Live }): unknown;
  render?(context: { model: Live; el: HTMLElement }): unknown;
}

const SELECTOR = 'script[type="application/vnd.jupyter.widget-';

function liveModel(saved: Saved): Live {
  const data: Record<string, unknown> = { ...saved.state };
  const callbacks = new Map<string, Set<() => void>>();
  const tell = (event: string) => callbacks.get(event)?.forEach((callback) => callback());
  return {
    get: (key) => data[key],
    set(key, value) {
      const changes = typeof key === "string" ? { [key]: value } : key;
      for (const [name, next] of Object.entries(changes)) {
        if (data[name] === next) continue;
        data[name] = next;
        tell(`change:${name}`);
        tell("change");
      }
    },
    on(event, callback) { callbacks.set(event, (callbacks.get(event) ?? new Set()).add(callback)); },
    off(event, callback) { if (event && callback) callbacks.get(event)?.delete(callback); else if (event) callbacks.delete(event); else callbacks.clear(); },
    save_changes() {},
    send() {},
  };
}

async function load(source: string): Promise<Entry> {
  const module = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  return typeof module.default === "function" ? module.default() : module.default;
}

async function run(): Promise<void> {
  const saved = document.querySelector(`${SELECTOR}state+json"]`);
  if (!saved) return;
  const models = JSON.parse(saved.textContent ?? "{}").state as Record<string, Saved>;
  const entries = new Map<string, Promise<Entry>>();
  for (const script of document.querySelectorAll<HTMLScriptElement>(`${SELECTOR}view+json"]`)) {
    const found = models[JSON.parse(script.textContent ?? "{}").model_id as string];
    const source = found?.state._esm;
    if (!found || typeof source !== "string") continue;
    if (!entries.has(source)) {
      const style = Object.assign(document.createElement("style"), { textContent: String(found.state._css ?? "") });
      document.head.append(style);
      entries.set(source, load(source));
    }
    const entry = await entries.get(source);
    const el = document.createElement("div");
    const model = liveModel(found);
    script.parentElement?.append(el);
    await entry?.initialize?.({ model });
    await entry?.render?.({ model, el });
  }
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", () => void run());
else void run();
