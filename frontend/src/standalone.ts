/** A page without Jupyter: `play(element, scene)` with the scene inlined. */
import { plainHost } from "./fix/host";
import { mount } from "./ui/player";
import { firstFinding, firstLook, readScene, type Scene } from "./state/scene";

export function play(el: HTMLElement, data: Scene, step = firstLook(readScene(data))): () => void {
  return mount(el, data, plainHost(step));
}

/** Where a page about one program opens: nothing around the picture says what was found, or where. */
export const finding = (data: Scene): number => firstFinding(readScene(data));
