/** The player: state machine + picture + panel, on any page. It knows nothing of Jupyter. */
import type { AnswerCell } from "../answer/cell";
import { readOff } from "../answer/entries";
import { answerPanel } from "../answer/panel";
import { save } from "../export/save";
import { fixPanel, type Trial } from "../fix/fix";
import { type AskPanel, askPanel } from "./ask";
import { button, h, icon, type IconName, iconButton, pressed, quiet, reachable, unusable, watchTheme } from "./dom";
import { finder, minimap, TALL_PX } from "./find";
import { inspector } from "./inspector";
import { type Focus, picture, SIGNS } from "./picture";
import { type Draft, kindOf, type Marked, marksOf } from "../state/kinds";
import { type Answer, answerOf, emptyDraft, isComplete, isEvidence, isPicked, labelOf, pick, type } from "../state/quiz";
import { drawnAt, lastFix, lastWrong, levelAt, levelInSight, readScene, type Scene } from "../state/scene";
import { type Event, lastStep, reduce, type State } from "../state/machine";
import { strip } from "./passes";
import { track } from "./track";
import { zoom } from "./zoom";
import { words } from "./words";

/** Where the state lives: a widget's model, or a variable of a static page. */
export interface Host {
  get(key: "step" | "selected" | "answer" | "level" | "trial" | "can_try"): unknown;
  set(changes: { step?: number; selected?: string; answer?: Answer; level?: string; trial?: Trial }): void;
  on(changed: () => void): () => void;
  /** Is an answer kept, with what its learner did? Where nothing keeps any, nothing is asked. */
  counts?(): boolean;
  /** The cell that the answer to an exercise goes into, where there is one. */
  cell?(name: string): AnswerCell | undefined;
}

const TICK_MS = 1400;
const LINE_PX = 20; // of the code
const AROUND_LINES = 3; // above one that a sentence leads to
const FEWEST_LINES = 9; // of it that are seen
const MOST_LINES = 16;
const ABOVE_PX = 50; // a page's title
const SCROLLBAR_PX = 12;
const BESIDE_PX = 300; // the words, where they stand beside a high picture
const HIGH = 0.6; // of the window: a picture higher than that has its words beside it, where there is room
const LOW = 0.62; // of the window: no picture is higher, but for one that is seen whole by little more
const NEARLY = 1.2;
const CELL_PX = 130; // of the window, around what is seen of a notebook
const KEYS: Record<string, Event> = { ArrowRight: { kind: "by", steps: 1 }, ArrowLeft: { kind: "by", steps: -1 }, Home: { kind: "first" }, End: { kind: "last" } };

/** Show a Scene; what is no Scene is a sentence and never an empty cell. */
export function mount(el: HTMLElement, data: unknown, host: Host): () => void {
  const scene = readScene(data);
  try {
    if (scene) return start(el, scene, host);
  } catch (error) {
    console.warn("seegrad:", error);
  }
  const said = h("p", { class: "sg sg-sorry", role: "note" }, words((data as Scene | null)?.lang ?? "en").broken);
  el.replaceChildren(said);
  return () => said.remove();
}

function start(el: HTMLElement, scene: Scene, host: Host): () => void {
  const w = words(scene.lang);
  const question = scene.question;
  const kind = kindOf(question);
  const exercise = question?.kind === "entries";
  const cell = exercise ? host.cell?.(question.name) : undefined;
  let draft: Draft = cell ? { ...emptyDraft, typed: readOff(cell.read(), question!) } : emptyDraft;
  let playing = false;
  let focus: Focus = "";
  let busy = false;
  let timer = 0;
  let wanted = { step: -1, line: -1 }; // which line of the code has to be in sight at a step: the culprit, or what was asked for
  let opened = ""; // the box that the newest event has opened: what is said is about it
  let taken: SVGElement | undefined; // the line that was clicked
  let newest = ""; // event; before one this is what was seen first, after an answer what it was about is in sight
  let begun = -1; // and at which step?
  const found = scene.frames.some((frame) => frame.severity);
  let kept = ""; // how wide the player was when its words were highest
  let asked = ""; // where and how wide the picture was when it last asked: what is clicked then doesn't move

  const answer = (): Answer | null => {
    const given = host.get("answer") as Answer | null | undefined;
    return given && Object.keys(given).length ? given : null;
  };
  const asks = () => !!question && !answer();
  const state = (): State => {
    const answered = answer() !== null;
    const step = Math.max(0, Math.min(Number(host.get("step")) || 0, lastStep(scene, answered)));
    const there = drawnAt(scene, step);
    const level = host.get("level") ?? (answered || !question ? levelInSight(there.scene, there.step) : undefined);
    return { step, playing, selected: String(host.get("selected") ?? ""), answered, level: String(level ?? "") };
  };
  const send = (event: Event) => {
    const before = state();
    const after = reduce(scene, before, event);
    playing = after.playing;
    opened = event.kind === "open" ? after.level : "";
    taken = undefined;
    newest = event.kind;
    busy = true; // one event is drawn once, however many changes it makes
    host.set({ step: after.step, selected: after.selected, ...(after.level === before.level ? {} : { level: after.level }) });
    busy = false;
    draw();
  };
  const commit = () => {
    if (!question || answer()) return;
    if (!isComplete(question, draft)) return panel?.remind?.();
    still(() => {
      host.set({ answer: answerOf(question, draft), step: state().step });
      send({ kind: "answered" });
      root.focus({ preventScroll: true }); // the button is hidden: keys go on, the notebook's too
    });
  };
  /** The picture above the question grows when it is answered: the question stays where its reader is, with what is said of it. */
  const still = (act: () => void) => {
    const top = () => panel!.element.getBoundingClientRect().top;
    const before = top();
    act();
    const behavior = "instant";
    for (let box: Element | null = el; box; box = box.parentElement) box.scrollBy?.({ top: top() - before, behavior });
    panel!.element.scrollIntoView?.({ block: "nearest", behavior });
  };

  const pic = picture(scene, w);
  const move = (name: IconName, label: string, event: Event) => iconButton(name, label, () => send(event));
  const first = move("first", w.first, { kind: "first" });
  const prev = move("prev", w.prev, { kind: "by", steps: -1 });
  const play = move("play", w.play, { kind: "toggle" });
  const next = move("next", w.next, { kind: "by", steps: 1 });
  const last = move("last", w.last, { kind: "last" });
  const line = track(scene, w, (step) => send({ kind: "go", step }));
  const panel: AskPanel | null = exercise ? answerPanel(question, w, cell, (made) => { draft = made; draw(); }) : question ? askPanel(question, w, {
    pick: (label) => { draft = pick(question, draft, label); draw(); },
    type: (label, text) => { draft = type(draft, label, text); draw(); },
    commit,
    again: () => still(() => {
      draft = emptyDraft;
      host.set({ answer: {}, step: question.until_step, selected: "" });
      draw();
      panel?.element.querySelector<HTMLElement>("input, button")?.focus();
    }),
  }) : null;
  const fix = fixPanel(host, w, mount);
  const info = inspector(scene, w, send, toLine, fix.element);
  const turn = (to: Focus) => { focus = focus === to || state().selected === "" || (to === "path" && asks()) ? "" : to; draw(); };
  const passes = strip(scene, w, send);
  const find = finder(scene, w, send, turn, pic.hits);
  const size = zoom(pic, () => root, w);
  const map = minimap(pic);
  const file = save(() => pic.box.querySelector("svg"), () => root, w);
  const code = h("ol", { class: "sg-cd", "aria-label": w.code }, ...scene.code.map(([number, text]) => h("li", { "data-n": number, value: number, style: `--in:${text.search(/\S|$/)}ch` }, text)));
  const foot = h("div", { class: "sg-ft" }, code, exercise ? "" : info.element);
  const live = h("div", { class: "sg-sr", role: "status", "aria-live": "polite" });
  const bar = h("div", { class: "sg-bar" }, first, prev, play, next, last, line.element, line.count, line.chip, ...size.buttons, file.element);
  const root = quiet(h("div", { class: "sg", role: "group", tabindex: -1, "aria-label": w.graph }, passes.element, find.element, h("div", { class: "sg-pic" }, pic.box, map.edges, map.element), panel?.element ?? "", bar, foot, pic.legend, live));
  const tallest = Math.max(scene.height_px, ...scene.levels.map((level) => level.height_px));
  root.classList.toggle("tall", tallest > TALL_PX);
  root.classList.toggle("loop", !!scene.passes.length);
  root.classList.toggle("exercise", exercise);
  el.append(root, fix.result);

  const labelAt = (id: string) => (asks() && !kind.beside ? labelOf(question!, id) : undefined); // of what can be picked
  const isPickedAt = (id: string) => { const label = labelAt(id); return label === undefined ? label : isPicked(question!, draft, label); };
  const choose = (id: string) => {
    const label = labelAt(id);
    if (label) {
      draft = pick(question!, draft, label);
      draw();
    } else send({ kind: "select", id });
  };

  function draw() {
    const now = state();
    const end = lastStep(scene, now.answered);
    const frame = scene.frames[now.step];
    const drawn = drawnAt(scene, now.step);
    if (!frame) return;
    const held = root.contains(document.activeElement);
    root.dataset.phase = frame.severity === "wrong" ? "error" : frame.phase;
    const given = answer();
    const open = question && !given;
    const marked: Marked | undefined = question && given ? marksOf(question, given) : undefined;
    if (!now.selected) focus = "";
    root.toggleAttribute("data-asks", !!open);
    pic.show(drawn, now.level, {
      selected: now.selected, focus, on: frame.on,
      picked: isPickedAt,
      tag: kind.tag && ((id) => (open && kind.tag!(question, draft, labelOf(question, id) ?? "\0")) || ""),
      evidence: (id) => !!question && !!given && !marked?.[labelOf(question, id) ?? "\0"] && isEvidence(question, id),
      mark: marked && ((id) => marked[labelOf(question!, id) ?? "\0"]),
    });
    arrange();
    passes.show(now.step);
    find.show(drawn, now.level, now.selected, focus, !!open);
    map.show(drawn.scene, now.level);
    file.show(!!open);
    line.show(now.step, end, !!open);
    panel?.show(draft, given, marked ?? {}, host.counts?.());
    for (const each of [first, prev]) unusable(each, now.step === 0);
    for (const each of [next, last]) unusable(each, now.step === end);
    play.innerHTML = icon(playing ? "pause" : "play");
    play.setAttribute("aria-label", playing ? w.pause : w.play);
    const culprit = lastWrong(scene, now.step)?.culprit;
    [...code.children].forEach((element, k) => {
      const target = `line:${scene.code[k]?.[0]}`;
      const label = labelAt(target);
      pressed(element.firstElementChild, label ? draft.picked.includes(label) : undefined);
      const mark = marked?.[labelOf(question!, target) ?? "\0"];
      const evidence = given && !mark && question?.evidence.includes(target);
      element.className = `${k === frame.line ? "cur" : k < (frame.line ?? 0) ? "past" : ""} ${k === culprit ? "bad" : k === frame.noted ? "noted" : ""} ${evidence ? "evidence" : ""}`;
      (element as HTMLElement).dataset.m = mark ? SIGNS[mark] : "";
      if (exercise) (element as HTMLElement).dataset.e = `${kind.tag!(question, draft, labelOf(question, target) ?? "\0")}`;
    });
    const veil = open ? question.veil : "";
    root.dataset.veil = veil;
    pic.veil(veil);
    fix.show(lastFix(scene, now.step), now.step);
    tell();
    live.textContent = `${w.step} ${now.step + 1}: ${frame.text} ${frame.diagnosis}`;
    clearInterval(timer);
    timer = playing ? window.setInterval(() => send({ kind: "tick" }), TICK_MS) : 0;
    if (held && !root.contains(document.activeElement)) root.focus({ preventScroll: true }); // what had the focus is gone: keys go on
    inSight();
  }

  /** The words beside the picture; a line that is clicked changes nothing else, least of all what is in sight. */
  function tell() {
    const { step, selected } = state();
    pic.take(taken);
    info.show(step, selected || opened, root.dataset.veil ?? "", taken?.dataset.t);
  }

  /** For the style to know. */
  const measure = (name: string, px: number) => root.style.setProperty(`--${name}`, `${px}px`);

  /** A high picture leaves no room for the words below it. */
  function arrange() {
    const { width_px, height_px } = levelAt(drawnAt(scene, state().step).scene, state().level, asks());
    const wide = width_px + SCROLLBAR_PX;
    root.classList.toggle("high", height_px > HIGH * innerHeight && wide + BESIDE_PX <= root.clientWidth);
    measure("w", wide); // however large it is drawn
    const whole = height_px + SCROLLBAR_PX + 4;
    const most = innerHeight - CELL_PX - (panel?.element.offsetHeight ?? 0); // what is asked stays in view with what can be picked
    measure("most", most);
    const room = Math.min(most, (found ? 1 : NEARLY) * Math.min(LOW * innerHeight, TALL_PX)); // what was found is read beside its picture, in one view
    measure("whole", whole <= room ? whole : 0);
    size.show(state().level);
    const left = innerHeight - ABOVE_PX - root.offsetHeight + foot.offsetHeight;
    const lines = Math.max(FEWEST_LINES, Math.min(MOST_LINES, Math.floor(left / LINE_PX) - 1));
    measure("room", lines * LINE_PX + 8); // for the code and the words, in the window with the picture
  }

  /** Has nothing been asked for, and nothing been found? Such a picture is read from its beginning. */
  const begins = ({ step, selected } = state()) => !newest && step === begun && !selected && !scene.frames[step]?.severity;

  /** What the step is about, before it what a question names or asks of, or an answer has picked, and the line of code, each inside its own box; after everything is written, since it asks for places. */
  function inSight() {
    keep();
    const view = `${state().step} ${pic.box.clientWidth}`;
    if (begun < 0) begun = state().step;
    const named = pic.parts().filter((part) => part.dataset.s !== "g" && (asks() ? part.matches("[aria-pressed=true]") || (kind.beside && isEvidence(question!, pic.idOf(part))) || question!.prompt.includes(`\`${part.querySelector(".nm")?.textContent}\``) : newest === "answered" && part.dataset.m));
    if (!asks()) pic.reveal(begins() ? [] : named[0] && named);
    else if (view !== asked) pic.reveal([...named.reverse(), ...(kind.many ? [] : pic.about()), ...pic.picks()]); // several are looked for from the beginning, and of what is asked of the newest stands at the step
    asked = view;
    map.follow();
    [pic.box, code, foot, info.element].forEach(reachable);
    lineInSight(code.querySelector(".cur"));
    const { step } = state();
    if (step !== wanted.step) wanted = { step, line: scene.frames[step]?.culprit ?? scene.frames[step]?.noted ?? -1 };
    lineInSight(code.children[wanted.line], AROUND_LINES); // where there is no room for both
  }

  /** The words' room never shrinks from step to step: a page that grew shorter would move under its reader. What is opened for a part takes its own. */
  function keep() {
    const width = `${root.clientWidth} ${root.className}`;
    if (width !== kept) root.style.removeProperty("--kept");
    kept = width;
    if (!state().selected && !document.fullscreenElement) measure("kept", foot.offsetHeight);
  }

  function lineInSight(found: Element | null | undefined, above = 0) {
    const line = found as HTMLElement | null | undefined;
    if (line) code.scrollTop = Math.min(line.offsetTop - above * LINE_PX, Math.max(code.scrollTop, Math.ceil((line.offsetTop + line.offsetHeight - code.clientHeight) / LINE_PX) * LINE_PX)); // no line is cut at the top
  }

  /** A line of the code, with the card of what it has made or written last. */
  function toLine(number: number) {
    const { step } = state();
    const drawn = drawnAt(scene, step);
    const place = scene.code.findIndex(([each]) => each === number);
    const ran = scene.frames.slice(0, step + 1).filter((frame) => frame.line === place && /forward|inplace/.test(frame.phase)).at(-1);
    const card = ran?.on.filter((id) => drawn.scene.items.some((item) => item.id === id)).at(-1);
    wanted = { step, line: place };
    if (card) send({ kind: "find", id: card });
    else inSight();
    code.children[place]?.animate?.({ outline: ["2px solid", "2px solid transparent"] }, TICK_MS);
  }

  /** A box opens, a chip leads to what it names, anything else is selected. */
  function press(part: SVGGElement) {
    const { open, goto } = part.dataset;
    if (open !== undefined) send({ kind: "open", level: open });
    else if (goto) send({ kind: "find", id: goto });
    else choose(pic.idOf(part));
  }

  pic.box.addEventListener("click", (event) => {
    const part = pic.partAt(event.target);
    if (part) return press(part);
    if (asks() || event.target === pic.box) return; // or the paper was moved
    taken = pic.lineAt(event);
    tell();
  });
  if (question) {
    for (const element of code.children) {
      const id = `line:${(element as HTMLElement).dataset.n}`;
      if (!labelOf(question, id)) continue;
      element.replaceChildren(button(element.textContent ?? "", () => choose(id)));
    }
  }
  root.addEventListener("keydown", (event) => {
    if (onKey(event)) { event.preventDefault(); event.stopPropagation(); }
  });

  function onKey(event: KeyboardEvent): boolean {
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey) return false; // the browser's
    if (target.matches("input:not([type=range])")) {
      if (event.key === "Enter") commit();
      return event.key === "Enter";
    }
    const part = pic.partAt(target);
    const enter = /^(Enter| )$/.test(event.key) && !event.shiftKey; // with Shift it is the notebook's
    if (enter && part) press(part);
    else if (part && event.key === "f") turn("near");
    else if (part && event.key === "g") turn("path");
    else if (part && !event.shiftKey && walk(part, event.key)) return true;
    else if (size.key(event.key)) return true;
    else if (event.shiftKey && /^Arrow(Left|Right)$/.test(event.key) && scene.passes.length) send({ kind: "passes", by: event.key === "ArrowLeft" ? -1 : 1 });
    else if (KEYS[event.key]) send(KEYS[event.key]!);
    else if (event.key === " " && target.tagName !== "BUTTON") send({ kind: "toggle" });
    else if (event.key === "Escape" && (state().selected || state().level)) send({ kind: "escape" }); // with nothing to let go of, the focus stays
    else return false;
    return true;
  }

  /** Roving tabindex over the parts that are there at this step; where some can be picked every arrow walks these, Home and End to the ends. */
  function walk(part: SVGGElement, key: string): boolean {
    const picks = pic.picks();
    const there = picks[0] ? picks : pic.parts().filter((p) => p.dataset.s !== "g");
    const by = { ArrowDown: 1, ArrowUp: -1, ...(picks[0] && { ArrowRight: 1, ArrowLeft: -1 }) }[key];
    const to = by ? there.at((there.indexOf(part) + by) % there.length) : picks.at({ Home: 0, End: -1 }[key] ?? picks.length);
    if (!to) return false;
    part.setAttribute("tabindex", "-1");
    to.setAttribute("tabindex", "0");
    to.focus();
    pic.reveal([to]); // a browser is content with a part of it
    return true;
  }

  const unwatch = watchTheme(root, (theme) => { root.dataset.theme = theme; });
  const off = host.on(() => busy || draw());
  const sized = new ResizeObserver(() => { arrange(); inSight(); });
  sized.observe(root);
  sized.observe(pic.box);
  draw();
  return () => { clearInterval(timer); off(); unwatch(); sized.disconnect(); root.remove(); fix.result.remove(); };
}
