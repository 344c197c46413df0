/** An exercise's answer, entry by entry: what a click chooses, its text in Python, and that text in a cell. Pure. */
import type { Draft } from "../state/kinds";
import type { Question } from "../state/scene";

export interface Option { value: string; label: string }
/** One entry of the answer: its name, and the values it may have, as JSON. */
export interface Entry { name: string; options: Option[] }

/** By name, the values as JSON. */
export type Chosen = Record<string, string>;

const STUB = /^[ \t]*(# YOUR CODE HERE|raise NotImplementedError\(\))[ \t]*(\n|$)/gm;

export function entriesOf(question: Question): Entry[] {
  const found: Entry[] = [];
  for (const { key, label } of question.choices) {
    const [name = "", value = ""] = key.split("\t");
    const entry = found.find((each) => each.name === name) ?? (found.push({ name, options: [] }), found.at(-1)!);
    entry.options.push({ value, label });
  }
  return found;
}

/** The entry that a click is for: the one that was touched last, or the first without a value. */
export const entryAt = (question: Question, draft: Draft): string => draft.at ?? entriesOf(question).find(({ name }) => !draft.typed[name])?.name ?? "";

export const chose = (draft: Draft, name: string, value: string, at?: string): Draft => ({ ...draft, typed: { ...draft.typed, [name]: value }, ...(at === undefined ? {} : { at }) });

/** What is called after an entry goes on to that entry's next value; what is called after a value gives it to an entry that may have it. */
export function clicked(question: Question, draft: Draft, label: string): Draft {
  const all = entriesOf(question);
  const own = all.find(({ name }) => name === label);
  if (own) {
    const next = own.options.findIndex(({ value }) => value === draft.typed[own.name]) + 1;
    return chose(draft, own.name, own.options[next]?.value ?? "");
  }
  const now = entryAt(question, draft);
  const fits = all.filter(({ options }) => options.some((each) => each.label === label));
  const taker = fits.find(({ name }) => name === now) ?? fits.find(({ name }) => !draft.typed[name]) ?? fits.at(-1);
  if (!taker) return draft;
  const made = chose(draft, taker.name, taker.options.find((each) => each.label === label)!.value);
  delete made.at; // and on to the next
  return made;
}

const python = (value: string | undefined): string => ({ true: "True", false: "False", "": "None" })[value ?? ""] ?? value!;

/** The answer's variable; `found |` says that others ask for its other entries. */
const nameOf = ({ name }: Question) => name.split(" ")[0]!;

/** All that is asked for, as Python. */
export const pythonOf = (question: Question, chosen: Chosen): string => `${question.name.replace(/\w$/, "$& ")}= {${entriesOf(question).map(({ name }) => `${JSON.stringify(name)}: ${python(chosen[name])}`).join(", ")}}`;

/** The last `name = {…}` of a cell: where its inside begins and ends. Nothing where something behind it changes that name. */
function dictIn(source: string, name: string): [number, number] | undefined {
  const start = [...source.matchAll(new RegExp(`^${name}[ \\t]*=[ \\t]*\\{`, "gm"))].at(-1);
  if (!start) return undefined;
  const from = start.index + start[0].length;
  const to = /^(?:[^"'{}#]|"[^"\n]*"|'[^'\n]*'|#.*)*(?=\})/.exec(source.slice(from))?.[0].length; // plain values, comments
  const changed = new RegExp(`^[ \\t]*${name}[ \\t]*(?:[[.]|\\|?=(?!=))`, "m");
  return to === undefined || changed.test(source.slice(from + to)) ? undefined : [from, from + to];
}

const quoted = (name: string) => `(["'])${name.replace(/\W/g, "\\$&")}`;

/** One entry in the inside of a dict: its key as a literal, then its value up to the comma. */
const entryIn = (name: string) => new RegExp(`(${quoted(name)}\\2[ \\t]*:[ \\t]*)("[^"\\n]*"|'[^'\\n]*'|[^,\\n#}]*)`);

/** The cell with this answer: its entries changed where they stand, else said behind all that is there. What isn't chosen stays. */
export function written(source: string, question: Question, chosen: Chosen): string {
  const name = nameOf(question);
  const said = entriesOf(question).filter((entry) => chosen[entry.name]).map((entry) => [entry.name, python(chosen[entry.name])] as const);
  const kept = said.reduce((text, [key]) => text.replace(new RegExp(`^${name}\\[${quoted(key)}\\1\\][ \\t]*=.*\\n?`, "gm"), ""), source.replace(STUB, "")).trimEnd();
  const place = dictIn(kept, name);
  const inside = place && kept.slice(...place);
  if (inside !== undefined && said.every(([key]) => entryIn(key).test(inside))) {
    const changed = said.reduce((text, [key, value]) => text.replace(entryIn(key), (_, head) => head + value), inside);
    return kept.slice(0, place![0]) + changed + kept.slice(place![1]);
  }
  const bound = new RegExp(`^${name}[ \\t]*=[ \\t]*(?!None\\b)[^=\\s]`, "m").test(kept);
  const more = bound ? said.map(([key, value]) => `${name}[${JSON.stringify(key)}] = ${value}`).join("\n") : pythonOf({ ...question, name }, chosen);
  return [kept, more].filter(Boolean).join("\n");
}

/** What a cell says already, as far as it is one of the values. */
export function readOff(source: string, question: Question): Chosen {
  const place = dictIn(source, nameOf(question));
  const inside = place ? source.slice(...place) : "";
  return Object.fromEntries(entriesOf(question).flatMap(({ name, options }) => {
    const said = entryIn(name).exec(inside)?.[3]?.trim().replace(/^'(.*)'$/, '"$1"');
    const known = options.find(({ value }) => python(value) === said);
    return known ? [[name, known.value]] : [];
  }));
}

/** What a part is chosen for: the entries whose value it is, or its own entry's value. */
export function tagOf(question: Question, { typed }: Draft, label: string): string {
  return entriesOf(question).flatMap(({ name, options }) => {
    const value = options.find((each) => each.value === typed[name])?.label;
    return value === undefined ? [] : name === label ? [value] : value === label ? [name] : [];
  }).join(", ");
}
