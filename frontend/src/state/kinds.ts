/** The kinds of questions: what a click picks, when a draft is complete, what it says, what is wrong in it. Pure; Python's `seegrad.quiz` judges alike. */
import { clicked, tagOf } from "../answer/entries";
import type { Question } from "./scene";

export type Value = string | number | string[] | Record<string, number> | Record<string, string[]>;

/** What the learner has chosen so far: picked keys, labels or pairs, those before it was none of them, numbers typed, and the Function that clicks on tensors are about. */
export interface Draft { picked: string[]; before?: string[]; typed: Record<string, string>; at?: string }

/** One kind of question. What isn't said is the plainest: one thing is picked, and the answer is that, or the names of `many`. */
export interface Kind {
  /** Several things are picked, one choice doesn't replace another. */
  many?: boolean;
  /** None of them may be the answer, which is then said: nothing chosen is no answer. */
  none?: boolean;
  /** What they are picked in counts: the picture numbers them. */
  inOrder?: boolean;
  /** Where it isn't "something is picked". */
  complete?(question: Question, draft: Draft): boolean;
  /** It is answered beside the picture: a click on a part is about the part. */
  beside?: boolean;
  /** The answer leaves the picture at its step, since backward frees what was asked for. */
  stays?: boolean;
  /** What a click on a label does, and whether it looks picked; where it isn't as plain. */
  pick?(question: Question, draft: Draft, label: string): Draft;
  isPicked?(question: Question, draft: Draft, label: string): boolean;
  value?(question: Question, draft: Draft): Value;
  /** The keys of what is wrong. */
  mistakes?(truth: never, value: never, question: Question): string[];
  /** What became of each thing that was picked, or had to be; where it isn't as plain. */
  marks?(truth: never, value: never): Marked;
  /** What is written on a part that is picked. */
  tag?(question: Question, draft: Draft, label: string): string | number;
}

/** Picked and right, picked and wrong, not picked though it's right. */
export type Mark = "right" | "wrong" | "missed";
export type Marked = Record<string, Mark>;

type Names = Record<string, string[]>;
type Numbers = Record<string, number>;

const WHOLE = /^\s*\d+\s*$/;
/** What is picked where it is none of them. */
export const NONE = "\0none";
const namesIn = (value: unknown): string[] => (Array.isArray(value) ? value : []);

/** What is too much, then what is missing. */
export function differences(wanted: string[], value: unknown, subject = ""): string[] {
  const given = namesIn(value);
  return [...given.filter((x) => !wanted.includes(x)).sort().map((x) => "+" + subject + x), ...wanted.filter((x) => !given.includes(x)).map((x) => "-" + subject + x)];
}

/** What is picked and what is to be picked, thing by thing. */
function compared(wanted: string[], given: string[]): Marked {
  return Object.fromEntries([...wanted.map((x) => [x, given.includes(x) ? "right" : "missed"]), ...given.filter((x) => !wanted.includes(x)).map((x) => [x, "wrong"])]);
}

export function toggled(draft: Draft, label: string): Draft {
  const { picked, before } = draft;
  if (label === NONE) return { ...draft, before: picked, picked: picked[0] === NONE ? before! : [NONE] };
  return { ...draft, picked: picked.includes(label) ? picked.filter((x) => x !== label) : [...picked.filter((x) => x !== NONE), label] };
}

/** What is wrong with an order: its members, all of it, one pair, or the choice among those that were ready. */
function disorder(wanted: string[], value: unknown, question: Question): string[] {
  const given = namesIn(value);
  const found = differences(wanted, given);
  if (found.length || given.join("\n") === wanted.join("\n")) return found;
  const keys = question.choices.map((c) => c.key).filter((key) => key.includes("<"));
  const early = keys.filter((key) => { const [a, b] = key.split("<") as [string, string]; return given.indexOf(a) < given.indexOf(b); });
  return early.length && early.length === keys.length ? ["forward"] : [early[0] ?? "youngest"];
}

/** An order, place by place. */
function inPlace(wanted: string[], value: unknown): Marked {
  const given = namesIn(value);
  return Object.fromEntries([...wanted.map((x) => [x, given.includes(x) ? "wrong" : "missed"]), ...given.map((x, k) => [x, wanted[k] === x ? "right" : "wrong"])]);
}

/** The names in a truth or an answer that maps Functions to tensors. */
const nodesOf = (question: Question) => Object.keys(JSON.parse(question.truth) as object);

/** What may be ticked: for each Function the tensors around it, as pairs `MulBackward0 a`. */
export function pairs(question: Question): [string, string[]][] {
  return nodesOf(question).map((node) => [node, question.choices.filter((c) => c.key.slice(1) === `${node} ${c.label}`).map((c) => c.label)]);
}

/** The Function that clicks on tensors are about. */
export const current = (question: Question, draft: Draft) => (draft.at ?? nodesOf(question)[0]) as string;

const KINDS: Record<string, Kind> = {
  entries: { complete: () => false, pick: clicked, isPicked: (question, draft, label) => !!tagOf(question, draft, label), tag: tagOf }, // an exercise's: graded elsewhere
  culprit: { value: (_, draft) => Number(draft.picked[0]) },
  leaves: { many: true, none: true },
  keeps: { many: true, none: true },
  order: { many: true, inOrder: true, tag: (_, draft, label) => draft.picked.indexOf(label) + 1, mistakes: disorder, marks: inPlace },
  versions: {
    beside: true,
    complete: (question, draft) => question.targets.every(([, label]) => WHOLE.test(draft.typed[label] as string)),
    value: (question, draft) => Object.fromEntries(question.targets.map(([, label]) => [label, Number(draft.typed[label])])),
    mistakes: (truth: Numbers, given: Numbers) => Object.entries(truth).filter(([name, v]) => given[name] !== v).map(([name]) => `${name}=${given[name]}`),
    marks: (truth: Numbers, given: Numbers) => Object.fromEntries(Object.entries(truth).map(([name, v]) => [name, given[name] === v ? "right" : "wrong"])),
  },
  saves: {
    many: true, none: true, stays: true,
    pick(question, draft, label) {
      if (label === NONE) return toggled(draft, label);
      if (nodesOf(question).includes(label)) return { ...draft, at: label };
      const pair = [label, `${current(question, draft)} ${label}`].find((each) => question.choices.some((c) => c.key.slice(1) === each));
      return pair ? toggled(draft, pair) : draft;
    },
    isPicked(question, draft, label) {
      const node = current(question, draft);
      return label === node || draft.picked.includes(`${node} ${label}`);
    },
    value: (question, draft) => Object.fromEntries(pairs(question).map(([node, names]) => [node, names.filter((name) => draft.picked.includes(`${node} ${name}`))])),
    mistakes: (wanted: Names, given: Names) => Object.keys({ ...wanted, ...given }).flatMap((node) => differences(wanted[node] ?? [], given[node], node + " ")),
    marks: (wanted: Names, given: Names) => Object.assign({}, ...Object.keys({ ...wanted, ...given }).map((node) => {
      const found = compared((wanted[node] ?? []).map((name) => `${node} ${name}`), namesIn(given[node]).map((name) => `${node} ${name}`));
      return { ...found, [node]: Object.values(found).every((mark) => mark === "right") ? "right" : "wrong" };
    })),
  },
};

/** What became of each label, choice or pair that was picked, or that had to be. */
export function marksOf(question: Question, answer: Record<string, Value>): Marked {
  const truth = JSON.parse(question.truth);
  const value = answer[question.kind];
  const { marks, many } = kindOf(question);
  if (marks) return marks(truth as never, (value ?? {}) as never);
  const [wanted, given] = [truth, value ?? []].map((each) => [each].flat().map(String)) as [string[], string[]];
  const accepted = !many && wanted.some((x) => given.includes(x)); // any of several is enough
  return compared(accepted ? given : wanted, given);
}

export const kindOf = (question: Question | null): Kind => KINDS[question?.kind as string] ?? {};

/** What is picked; sorted, unless its order counts. */
export const chosen = (question: Question, { picked }: Draft) => (kindOf(question).inOrder ? picked : picked.filter((x) => x !== NONE).sort());
