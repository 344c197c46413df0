/** The question's panel: prompt, ways to answer, the button, then the verdict. */
import { h, quiet } from "./dom";
import { withCode } from "./inspector";
import { chosen, current, type Draft, kindOf, pairs, type Value } from "../state/kinds";
import { type Answer, isComplete, judge, pythonLine } from "../state/quiz";
import type { Question } from "../state/scene";
import type { Words } from "./words";

export interface AskPanel { element: HTMLElement; show(draft: Draft, answer: Answer | null): void }

interface Moves { pick(label: string): void; type(label: string, text: string): void; commit(): void }

export function askPanel(question: Question, w: Words, moves: Moves): AskPanel {
  const prompt = h("p", { class: "sg-qp" }, ...withCode(question.prompt));
  const controls = h("div", { class: "sg-qc" });
  const button = quiet(h("button", { type: "button", class: "sg-check", onclick: () => moves.commit() }, w.check));
  const hint = h("span", { class: "sg-qh" }, w.hidden);
  const verdict = h("div", { class: "sg-qv", role: "status", "aria-live": "polite" });
  const element = h("div", { class: "sg-q", role: "group", "aria-label": question.prompt.replaceAll("`", "") }, prompt, controls, h("div", { class: "sg-qb" }, button, hint), verdict);
  const inputs = (CONTROLS[question.kind] ?? list)(question, w, controls, moves);
  return {
    element,
    show(draft, answer) {
      element.classList.toggle("answered", answer !== null);
      button.disabled = !isComplete(question, draft);
      inputs(draft, answer && (answer[question.kind] ?? ""));
      if (answer === null) verdict.replaceChildren();
      else if (!verdict.childElementCount) verdict.append(...verdictOf(question, w, answer));
    },
  };
}

/** Shows a draft, or where one was given the answer. */
type Update = (draft: Draft, given: Value | null) => void;

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
    controls.append(h("label", {}, input, ` ${choice.label}`));
    return input;
  });
  return (draft, given) => {
    picked.textContent = labels.includes(draft.picked[0] as string) ? `${w.picked} ${chosen(question, draft).join(between)}` : "";
    for (const input of all) { input.checked = (given ?? draft.picked[0]) == input.value; input.disabled = given !== null; }
  };
}

/** One row for each Function: the tensors around it, each with a box to tick. */
function ticks(question: Question, _: Words, controls: HTMLElement, moves: Moves): Update {
  const rows = pairs(question).map(([node, names]) => {
    const inputs = names.map((name) => {
      const pair = `${node} ${name}`;
      return { pair, name, input: quiet(h("input", { type: "checkbox", onchange: () => moves.pick(pair) })) };
    });
    const labels = inputs.map(({ name, input }) => h("label", {}, input, h("code", {}, name)));
    const row = h("div", { class: "sg-qr", role: "group", "aria-label": node }, h("code", {}, node), ...labels);
    controls.append(row);
    return { node, row, inputs };
  });
  return (draft, given) => {
    for (const { node, row, inputs } of rows) {
      row.classList.toggle("cur", given === null && node === current(question, draft));
      for (const { pair, name, input } of inputs) { input.checked = given === null ? draft.picked.includes(pair) : !!(given as Record<string, string[]>)[node]?.includes(name); input.disabled = given !== null; }
    }
  };
}

function numbers(question: Question, w: Words, controls: HTMLElement, moves: Moves): Update {
  const all = question.targets.map(([, label]) => {
    const input: HTMLInputElement = quiet(h("input", { type: "text", inputmode: "numeric", size: 3, "aria-label": `${w.version} ${label}`, oninput: () => moves.type(label, input.value) }));
    controls.append(h("label", {}, h("code", {}, `${label}._version = `), input));
    return { label, input };
  });
  return (draft, given) => {
    for (const { label, input } of all) {
      const value = String((given === null ? draft.typed : (given as Record<string, number>))[label] ?? "");
      if (input.value !== value) input.value = value;
      input.disabled = given !== null;
    }
  };
}

function verdictOf(question: Question, w: Words, answer: Answer): HTMLElement[] {
  const { right, message, misconception } = judge(question, answer);
  const line = pythonLine(question, answer);
  const copy = quiet(h("button", { type: "button", class: "sg-copy", onclick: () => {
    void navigator.clipboard?.writeText(line).then(() => { copy.textContent = w.copied; });
  } }, w.copy));
  const head = h("b", {}, right ? `✓ ${w.right}` : `✗ ${w.wrong}`);
  const said = h("p", { class: right ? "right" : "wrong" }, head, " ", ...withCode(message), h("small", {}, ` ${misconception}`));
  return [said, h("p", { class: "sg-py" }, h("span", {}, w.keep), " ", h("code", {}, line), " ", copy)];
}
