/** Answering a question: a draft, when it is complete, what is wrong with it. Pure; the same rules as quiz.py. */
import type { Question } from "./scene";

export type Value = string | number | string[] | Record<string, number>;
export type Answer = Record<string, Value>;

/** What the learner has chosen so far: picked keys or target labels, and numbers typed. */
export interface Draft { picked: string[]; typed: Record<string, string> }
export interface Verdict { right: boolean; message: string; misconception: string }

export const emptyDraft: Draft = { picked: [], typed: {} };

/** One choice replaces another, except where several leaves are asked for. */
export function pick(question: Question, draft: Draft, label: string): Draft {
  const had = draft.picked.includes(label);
  if (question.kind !== "leaves") return { ...draft, picked: [label] };
  return { ...draft, picked: had ? draft.picked.filter((x) => x !== label) : [...draft.picked, label] };
}

export function type(draft: Draft, label: string, text: string): Draft {
  return { ...draft, typed: { ...draft.typed, [label]: text } };
}

const WHOLE = /^\s*\d+\s*$/;

export function isComplete(question: Question, draft: Draft): boolean {
  if (question.kind === "versions") return question.targets.every(([, label]) => WHOLE.test(draft.typed[label] ?? ""));
  return draft.picked.length > 0;
}

export function answerOf(question: Question, draft: Draft): Answer {
  const first = draft.picked[0] ?? "";
  switch (question.kind) {
    case "outcome": return { outcome: first };
    case "culprit": return { culprit: Number(first) };
    case "leaves": return { leaves: [...draft.picked].sort() };
    case "versions": return { versions: Object.fromEntries(question.targets.map(([, label]) => [label, Number(draft.typed[label])])) };
  }
}

/** The keys of what is wrong in an answer: `silent`, `out=0`, `+b`, `-a`, `5`. */
export function mistakes(question: Question, value: Value | undefined): string[] {
  const truth: unknown = JSON.parse(question.truth);
  if (question.kind === "versions") {
    const given = (value ?? {}) as Record<string, number>;
    return Object.entries(truth as Record<string, number>).filter(([name, v]) => given[name] !== v).map(([name]) => `${name}=${given[name]}`);
  }
  if (question.kind === "leaves") {
    const given = Array.isArray(value) ? value : [];
    const wanted = truth as string[];
    return [...given.filter((x) => !wanted.includes(x)).sort().map((x) => "+" + x), ...wanted.filter((x) => !given.includes(x)).map((x) => "-" + x)];
  }
  const accepted = Array.isArray(truth) ? truth : [truth];
  return accepted.includes(value) ? [] : [String(value)];
}

export function judge(question: Question, answer: Answer): Verdict {
  const found = mistakes(question, answer[question.kind]);
  if (!found.length) return { right: true, message: question.right, misconception: "" };
  const told = found.flatMap((key) => question.choices.filter((c) => c.key === key && c.misconception));
  const said = [...new Set(told.map((c) => c.message))];
  return { right: false, message: [question.wrong, ...said].join(" ").replaceAll("。 ", "。"), misconception: told[0]?.misconception ?? "" };
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

/** Does this item belong to the evidence that a verdict points at? */
export function isEvidence(question: Question, itemId: string): boolean {
  return question.evidence.includes(itemId) || question.evidence.includes(itemId.replace(/-\d+$/, ""));
}
