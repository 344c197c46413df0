/** A page without Jupyter: `play(element, scene)` with the scene inlined. */
import { plainHost } from "./fix/host";
import { mount } from "./ui/player";
import { firstLook, readScene, type Scene } from "./state/scene";

export function play(el: HTMLElement, data: Scene, step = firstLook(readScene(data))): () => void {
  return mount(el, data, plainHost(step));
}
