/** A page without Jupyter: `play(element, scene)` with the scene inlined. */
import { plainHost } from "./fix/host";
import { mount } from "./ui/player";
import { words } from "./ui/words";
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
  const scene = readScene(data);
  if (scene) tell(document.getElementById("walk"), words(scene.lang).walk);
  const done = play(el, data, firstFinding(scene));
  return () => { document.removeEventListener("keydown", onKey); done(); };
}

/** How to walk, until somebody does; its room is kept, so that nothing moves. */
function tell(line: HTMLElement | null, how: string) {
  if (!line) return;
  line.textContent = how;
  for (const begun of ["keydown", "pointerdown"]) document.addEventListener(begun, () => { line.style.visibility = "hidden"; }, { once: true, capture: true });
}
