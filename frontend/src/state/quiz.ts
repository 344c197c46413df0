/** Answering a question of any kind: a draft, when it is complete, what is wrong with it. Pure; the same rules as Python's `seegrad.quiz`. */
import { chosen, differences, type Draft, kindOf, toggled, type Value } from "./kinds";
import type { Question } from "./scene";

export type Answer = Record<string, Value>;
export interface Verdict { right: boolean; message: string; misconception: string }

export const emptyDraft: Draft = { picked: [], typed: {} };

/** One choice replaces another, except where several things are asked for. */
export function pick(question: Question, draft: Draft, label: string): Draft {
  const kind = kindOf(question);
  if (kind.pick) return kind.pick(question, draft, label);
  return kind.many ? toggled(draft, label) : { ...draft, picked: [label] };
}

/** Is this part, a Function or a tensor, among what is picked? */
export const isPicked = (question: Question, draft: Draft, label: string): boolean => kindOf(question).isPicked?.(question, draft, label) ?? draft.picked.includes(label);

export function type(draft: Draft, label: string, text: string): Draft {
  return { ...draft, typed: { ...draft.typed, [label]: text } };
}

export const isComplete = (question: Question, draft: Draft): boolean => kindOf(question).complete?.(question, draft) ?? !!draft.picked[0];

export function answerOf(question: Question, draft: Draft): Answer {
  const { value, many } = kindOf(question);
  const picked = chosen(question, draft);
  return { [question.kind]: value ? value(question, draft) : many ? picked : (picked[0] ?? "") };
}

/** The keys of what is wrong in an answer: `silent`, `out=0`, `+b`, `-a`, `+MulBackward0 b`, `A<B`, `5`. */
export function mistakes(question: Question, value: Value | undefined): string[] {
  const truth = JSON.parse(question.truth);
  const { mistakes, many } = kindOf(question);
  if (mistakes) return mistakes(truth as never, (value ?? {}) as never, question);
  if (many) return differences(truth, value);
  return [truth].flat().includes(value) ? [] : [String(value)];
}

export function judge(question: Question, answer: Answer): Verdict {
  const found = mistakes(question, answer[question.kind]);
  if (!found.length) return { right: true, message: question.right, misconception: "" };
  const told = found.flatMap((key) => question.choices.filter((c) => c.key === key));
  const said = [...new Set([...told.map((c) => c.about ?? ""), ...told.map((c) => c.message)])].filter(Boolean);
  return { right: false, message: [question.wrong, ...said].join(" ").replaceAll("。 ", "。"), misconception: told.find((c) => c.misconception)?.misconception ?? "" };
}

/** The answer as one line of Python, to keep in a cell. */
export function pythonLine(question: Question, answer: Answer): string {
  return `${question.name} = ${JSON.stringify(answer).replace(/([:,])(?=["\d[{])/g, "$1 ")}`;
}

/** An item's own id, and that of the tensor that it is a card of. */
const namesOf = (itemId: string) => [itemId, itemId.replace(/-\d+$/, "")];

/** A card `t3-1` or pill `f2` → the label that it stands for in this question, if any. */
export function labelOf(question: Question, itemId: string): string | undefined {
  return question.targets.find(([id]) => namesOf(itemId).includes(id))?.[1];
}

/** Does this item belong to the evidence that a verdict points at? */
export const isEvidence = (question: Question, itemId: string): boolean => namesOf(itemId).some((id) => question.evidence.includes(id));
