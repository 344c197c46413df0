/** Answering a question: a draft, when it is complete, what is wrong with it. Pure; the same rules as quiz.py. */
import type { Question } from "./scene";

export type Value = string | number | string[] | Record<string, number> | Record<string, string[]>;
export type Answer = Record<string, Value>;

/** What the learner has chosen so far: picked keys, labels or pairs, numbers typed, and the Function that clicks on tensors are about. */
export interface Draft { picked: string[]; typed: Record<string, string>; at?: string }
export interface Verdict { right: boolean; message: string; misconception: string }

export const emptyDraft: Draft = { picked: [], typed: {} };

/** The names in a truth or an answer that maps Functions to tensors. */
const nodesOf = (question: Question) => Object.keys(JSON.parse(question.truth) as object);

/** What may be ticked: for each Function the tensors around it, as pairs `MulBackward0 a`. */
export function pairs(question: Question): [string, string[]][] {
  return nodesOf(question).map((node) => [node, question.choices.filter((c) => c.key.slice(1) === `${node} ${c.label}`).map((c) => c.label)]);
}

/** The Function that clicks on tensors are about. */
export const current = (question: Question, draft: Draft) => draft.at ?? nodesOf(question)[0] ?? "";

/** One choice replaces another, except where several things are asked for. */
export function pick(question: Question, draft: Draft, label: string): Draft {
  let one = label;
  if (question.kind === "saves") {
    if (nodesOf(question).includes(label)) return { ...draft, at: label };
    const offered = [label, `${current(question, draft)} ${label}`].filter((pair) => question.choices.some((c) => c.key.slice(1) === pair));
    if (!offered[0]) return draft;
    one = offered[0];
  } else if (question.kind === "outcome" || question.kind === "culprit") return { ...draft, picked: [label] };
  const had = draft.picked.includes(one);
  return { ...draft, picked: had ? draft.picked.filter((x) => x !== one) : [...draft.picked, one] };
}

/** Is this part, a Function or a tensor, among what is picked? */
export function isPicked(question: Question, draft: Draft, label: string): boolean {
  if (question.kind !== "saves") return draft.picked.includes(label);
  const node = current(question, draft);
  return label === node || draft.picked.includes(`${node} ${label}`);
}

export function type(draft: Draft, label: string, text: string): Draft {
  return { ...draft, typed: { ...draft.typed, [label]: text } };
}

const WHOLE = /^\s*\d+\s*$/;

export function isComplete(question: Question, draft: Draft): boolean {
  if (question.kind === "versions") return question.targets.every(([, label]) => WHOLE.test(draft.typed[label] ?? ""));
  return draft.picked.length > 0 || question.kind === "keeps" || question.kind === "saves"; // where none may be the answer
}

export function answerOf(question: Question, draft: Draft): Answer {
  const first = draft.picked[0] ?? "";
  switch (question.kind) {
    case "outcome": return { outcome: first };
    case "culprit": return { culprit: Number(first) };
    case "leaves": case "keeps": return { [question.kind]: [...draft.picked].sort() };
    case "order": return { order: draft.picked };
    case "saves": return { saves: Object.fromEntries(pairs(question).map(([node, names]) => [node, names.filter((name) => draft.picked.includes(`${node} ${name}`))])) };
    case "versions": return { versions: Object.fromEntries(question.targets.map(([, label]) => [label, Number(draft.typed[label])])) };
  }
}

const namesIn = (value: unknown): string[] => (Array.isArray(value) ? value : []);

/** What is too much, then what is missing. */
function differences(given: string[], wanted: string[], subject = ""): string[] {
  return [...given.filter((x) => !wanted.includes(x)).sort().map((x) => "+" + subject + x), ...wanted.filter((x) => !given.includes(x)).map((x) => "-" + subject + x)];
}

/** What is wrong with an order: its members, all of it, one pair, or the choice among those that were ready. */
function disorder(question: Question, given: string[], wanted: string[]): string[] {
  const found = differences(given, wanted);
  if (found.length || given.join("\n") === wanted.join("\n")) return found;
  const keys = question.choices.map((c) => c.key).filter((key) => key.includes("<"));
  const early = keys.filter((key) => { const [a = "", b = ""] = key.split("<"); return given.indexOf(a) < given.indexOf(b); });
  return early.length && early.length === keys.length ? ["forward"] : [early[0] ?? "youngest"];
}

/** The keys of what is wrong in an answer: `silent`, `out=0`, `+b`, `-a`, `+MulBackward0 b`, `A<B`, `5`. */
export function mistakes(question: Question, value: Value | undefined): string[] {
  const truth: unknown = JSON.parse(question.truth);
  if (question.kind === "versions") {
    const given = (value ?? {}) as Record<string, number>;
    return Object.entries(truth as Record<string, number>).filter(([name, v]) => given[name] !== v).map(([name]) => `${name}=${given[name]}`);
  }
  if (question.kind === "leaves" || question.kind === "keeps") return differences(namesIn(value), truth as string[]);
  if (question.kind === "order") return disorder(question, namesIn(value), truth as string[]);
  if (question.kind === "saves") {
    const wanted = truth as Record<string, string[]>;
    const given = (value ?? {}) as Record<string, string[]>;
    return Object.keys({ ...wanted, ...given }).flatMap((node) => differences(namesIn(given[node]), wanted[node] ?? [], node + " "));
  }
  const accepted = Array.isArray(truth) ? truth : [truth];
  return accepted.includes(value) ? [] : [String(value)];
}

export function judge(question: Question, answer: Answer): Verdict {
  const found = mistakes(question, answer[question.kind]);
  if (!found.length) return { right: true, message: question.right, misconception: "" };
  const told = found.flatMap((key) => question.choices.filter((c) => c.key === key));
  const said = [...new Set(told.map((c) => c.message))].filter(Boolean);
  return { right: false, message: [question.wrong, ...said].join(" ").replaceAll("。 ", "。"), misconception: told.find((c) => c.misconception)?.misconception ?? "" };
}

/** The answer as one line of Python, to keep in a cell. */
export function pythonLine(question: Question, answer: Answer): string {
  return `${question.name} = ${JSON.stringify(answer).replace(/([:,])(?=["\d[{])/g, "$1 ")}`;
}

/** A card `t3-1` or pill `f2` → the label that it stands for in this question, if any. */
export function labelOf(question: Question, itemId: string): string | undefined {
  const tensor = itemId.replace(/-\d+$/, "");
  return question.targets.find(([id]) => id === itemId || id === tensor)?.[1];
}

/** Does this item belong to the evidence that a verdict points at, or was it taken for what it isn't? */
export function isEvidence(question: Question, itemId: string, answer: Answer = {}): boolean {
  if (question.evidence.includes(itemId) || question.evidence.includes(itemId.replace(/-\d+$/, ""))) return true;
  const label = labelOf(question, itemId);
  return /keeps|saves|order/.test(question.kind) && mistakes(question, answer[question.kind]).some((key) => key.split(/^[+-]| .*|</).includes(label ?? "\0"));
}
