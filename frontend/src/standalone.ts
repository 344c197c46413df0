/** A page without Jupyter: `play(element, scene)` with the scene inlined. */
import { plainHost } from "./fix/host";
import { mount } from "./ui/player";
import { firstFinding, firstLook, readScene, type Scene } from "./state/scene";

export function play(el: HTMLElement, data: Scene, step = firstLook(readScene(data))): () => void {
  return mount(el, data, plainHost(step));
}

/** A page about one program: it opens where something was found, since nothing around the picture says so; keys that nothing on it has the focus for are the picture's. */
export function alone(el: HTMLElement, data: Scene): () => void {
  const onKey = (event: KeyboardEvent) => {
    if (event.target === document.body && !el.firstElementChild!.dispatchEvent(new KeyboardEvent("keydown", event))) event.preventDefault();
  };
  document.addEventListener("keydown", onKey);
  const done = play(el, data, firstFinding(readScene(data)));
  return () => { document.removeEventListener("keydown", onKey); done(); };
}
