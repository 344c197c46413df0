/** The question's panel: prompt, ways to answer, the button, then the verdict. */
import { button, h, quiet } from "./dom";
import { withCode } from "./inspector";
import { SIGNS } from "./picture";
import { chosen, current, type Draft, kindOf, type Mark, type Marked, NONE, pairs, type Value } from "../state/kinds";
import { type Answer, judge, pythonLine } from "../state/quiz";
import type { Question } from "../state/scene";
import type { Words } from "./words";

export interface AskPanel {
  element: HTMLElement;
  show(draft: Draft, answer: Answer | null, marked: Marked, counts?: boolean): void;
  /** Nothing was chosen, or not all: say so, and nothing of the answer. */
  remind?(): void;
}

interface Moves { pick(label: string): void; type(label: string, text: string): void; commit(): void; again(): void }

export function askPanel(question: Question, w: Words, moves: Moves): AskPanel {
  const prompt = h("p", { class: "sg-qp" }, ...withCode(question.prompt));
  const controls = h("div", { class: "sg-qc" });
  const check = button(w.check, moves.commit, { class: "sg-check" });
  const hint = h("span", { class: "sg-qh" }, w.hidden);
  const note = h("p", { class: "sg-qn", role: "status", hidden: true }, w.uncounted);
  const verdict = h("div", { class: "sg-qv", role: "status", "aria-live": "polite" });
  const element = h("div", { class: "sg-q", role: "group", "aria-label": question.prompt.replaceAll("`", "") }, prompt, controls, h("div", { class: "sg-qb" }, check, hint), note, verdict);
  const inputs = (CONTROLS[question.kind] ?? list)(question, w, controls, moves);
  const none = kindOf(question).none ? noneOf(w, controls, moves) : null;
  return {
    element,
    show(draft, answer, marked, counts = true) {
      element.classList.toggle("answered", answer !== null);
      none?.(draft, answer && (answer[question.kind] ?? ""), marked);
      inputs(draft, answer && (answer[question.kind] ?? ""), marked);
      if (answer === null) {
        note.hidden = counts; // after an answer, as it was before it
        verdict.replaceChildren();
      } else if (!verdict.querySelector(".sg-py")) verdict.replaceChildren(...verdictOf(question, w, answer, moves, marked));
    },
    remind() { verdict.replaceChildren(h("p", { class: "sg-qn" }, question.kind === "versions" ? w.fillFirst : none ? w.chooseOrNone : w.chooseFirst)); },
  };
}

/** None of them, as a choice of its own. */
function noneOf(w: Words, controls: HTMLElement, moves: Moves): Update {
  const input = quiet(h("input", { type: "checkbox", onchange: () => moves.pick(NONE) }));
  controls.append(h("label", {}, input, ` ${w.none}`));
  return (draft, given) => {
    input.checked = given === null ? draft.picked.includes(NONE) : !Object.values(given).flat().length;
    input.disabled = given !== null;
  };
}

/** Shows a draft, or where one was given the answer, and what became of each thing that was picked. */
type Update = (draft: Draft, given: Value | null, marked: Marked) => void;

/** Beside a choice: its sign, in words for who doesn't see it. */
const signed = (w: Words) => {
  const element = h("span", { class: "sg-qs" });
  const show = (mark: Mark | undefined) => {
    element.dataset.m = mark ?? "";
    element.replaceChildren(...(mark ? [h("span", { "aria-hidden": "true" }, SIGNS[mark]), h("span", { class: "sg-sr" }, w[mark])] : []));
  };
  return { element, show };
};

/** How a kind of question is answered where it isn't by clicks alone, nor by a choice where there is nothing to click. */
const CONTROLS: Record<string, typeof ticks> = { versions: numbers, saves: ticks };

/** What is picked by clicks on the picture, in words; what there is nothing to click for is chosen. */
function list(question: Question, w: Words, controls: HTMLElement, moves: Moves): Update {
  const picked = h("output", { class: "sg-qk" });
  const labels = question.targets.map(([, label]) => label);
  controls.append(picked);
  const between = kindOf(question).inOrder ? " → " : ", ";
  const all = question.choices.filter((choice) => choice.label && !labels.includes(choice.key)).map((choice) => {
    const input = quiet(h("input", { type: "radio", name: `sg-${question.id}`, value: choice.key, onchange: () => moves.pick(choice.key) }));
    const sign = signed(w);
    controls.append(h("label", {}, input, ` ${choice.label}`, sign.element));
    return { input, sign };
  });
  return (draft, given, marked) => {
    picked.textContent = labels.includes(draft.picked[0] as string) ? `${w.picked} ${chosen(question, draft).join(between)}` : "";
    for (const { input, sign } of all) { input.checked = (given ?? draft.picked[0]) == input.value; input.disabled = given !== null; sign.show(marked[input.value]); }
  };
}

/** One row for each Function: the tensors around it, each with a box to tick. */
function ticks(question: Question, w: Words, controls: HTMLElement, moves: Moves): Update {
  const rows = pairs(question).map(([node, names]) => {
    const inputs = names.map((name) => {
      const pair = `${node} ${name}`;
      return { pair, name, sign: signed(w), input: quiet(h("input", { type: "checkbox", onchange: () => moves.pick(pair) })) };
    });
    const labels = inputs.map(({ name, input, sign }) => h("label", {}, input, h("code", {}, name), sign.element));
    const row = h("div", { class: "sg-qr", role: "group", "aria-label": node }, h("code", {}, node), ...labels);
    controls.append(row);
    return { node, row, inputs };
  });
  return (draft, given, marked) => {
    for (const { node, row, inputs } of rows) {
      row.classList.toggle("cur", given === null && node === current(question, draft));
      for (const { pair, name, input, sign } of inputs) { sign.show(marked[pair]); input.checked = given === null ? draft.picked.includes(pair) : !!(given as Record<string, string[]>)[node]?.includes(name); input.disabled = given !== null; }
    }
  };
}

function numbers(question: Question, w: Words, controls: HTMLElement, moves: Moves): Update {
  const all = question.targets.map(([, label]) => {
    const input: HTMLInputElement = quiet(h("input", { type: "text", inputmode: "numeric", size: 3, "aria-label": `${w.version} ${label}`, oninput: () => moves.type(label, input.value) }));
    const sign = signed(w);
    controls.append(h("label", {}, h("code", {}, `${label}._version = `), input, sign.element));
    return { label, input, sign };
  });
  return (draft, given, marked) => {
    for (const { label, input, sign } of all) {
      sign.show(marked[label]);
      const value = String((given === null ? draft.typed : (given as Record<string, number>))[label] ?? "");
      if (input.value !== value) input.value = value;
      input.disabled = given !== null;
    }
  };
}

function verdictOf(question: Question, w: Words, answer: Answer, moves: Moves, marked: Marked): HTMLElement[] {
  const { right, message, misconception } = judge(question, answer);
  const line = pythonLine(question, answer);
  const copy = button(w.copy, () => void navigator.clipboard?.writeText(line).then(() => { copy.textContent = w.copied; }), { class: "sg-copy" });
  const again = button(w.again, moves.again, { class: "sg-again" });
  const met = (Object.keys(SIGNS) as Mark[]).filter((mark) => Object.values(marked).includes(mark));
  const key = h("p", { class: "sg-qm" }, ...met.map((mark) => h("span", { "data-m": mark }, h("i", { "aria-hidden": "true" }, SIGNS[mark]), ` ${w[mark]}`)), again);
  const verdict = right ? "right" : "wrong";
  const said = h("p", { class: verdict }, h("b", {}, `${SIGNS[verdict]} ${w[verdict]}${w.stop}`), ...withCode(message), h("small", {}, ` ${misconception}`));
  return [said, key, h("p", { class: "sg-py" }, h("span", {}, w.keep), " ", h("code", {}, line), " ", copy)];
}
