/** A page without Jupyter: `play(element, scene)` with the scene inlined. */
import { plainHost } from "./fix/host";
import { mount } from "./ui/player";
import { words } from "./ui/words";
import { firstFinding, firstLook, readScene, type Scene } from "./state/scene";

/** Where a page about one program opens: where something was found, since nothing around the picture says so. */
export const found = (data: Scene) => firstFinding(readScene(data));

export function play(el: HTMLElement, data: Scene, step = firstLook(readScene(data))): () => void {
  return mount(el, data, plainHost(step));
}

/** A page that is one program's picture alone: keys that nothing on it has the focus for are the picture's. */
export function alone(el: HTMLElement, data: Scene): () => void {
  const onKey = (event: KeyboardEvent) => {
    if (event.target === document.body && !el.firstElementChild!.dispatchEvent(new KeyboardEvent("keydown", event))) event.preventDefault();
  };
  document.addEventListener("keydown", onKey);
  const scene = readScene(data);
  if (scene) tell(document.getElementById("walk"), words(scene.lang).walk);
  const done = play(el, data, found(data));
  return () => { document.removeEventListener("keydown", onKey); done(); };
}

/** How to walk, until somebody does; its room is kept, so that nothing moves. */
function tell(line: HTMLElement | null, how: string) {
  if (!line) return;
  line.textContent = how;
  for (const begun of ["keydown", "pointerdown"]) document.addEventListener(begun, () => { line.style.visibility = "hidden"; }, { once: true, capture: true });
}
