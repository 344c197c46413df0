/** The panel of an exercise's answer: an entry a line, the answer in Python, and the way into the answer cell. */
import type { AnswerCell } from "./cell";
import { chose, type Chosen, entriesOf, entryAt, pythonOf, written } from "./entries";
import type { Draft } from "../state/kinds";
import type { Question } from "../state/scene";
import { button, h, quiet } from "../ui/dom";
import type { Words } from "../ui/words";

export function answerPanel(question: Question, w: Words, cell: AnswerCell | undefined, change: (draft: Draft) => void): { element: HTMLElement; show(draft: Draft): void } {
  let now: Draft = { picked: [], typed: {} };
  let shown: Chosen | undefined;
  const rows = entriesOf(question).map(({ name, options }) => {
    const choices = [{ value: "", label: "–" }, ...options].map(({ value, label }) => h("option", { value }, label));
    const select: HTMLSelectElement = quiet(h("select", { "aria-label": name, onchange: () => change(chose(now, name, select.value, name)), onfocus: () => change({ ...now, at: name }) }, ...choices));
    return { name, select, row: h("label", {}, h("code", {}, name), select) };
  });
  const text = h("code", {});
  const status = h("span", { role: "status", class: "sg-qh" });
  const put = button(w.toCell, () => {
    cell!.write(written(cell!.read(), question, now.typed));
    status.textContent = w.inCell;
  }, { class: "sg-check", hidden: !cell });
  const copy = button(w.copy, () => void navigator.clipboard?.writeText(pythonOf(question, now.typed)).then(() => { status.textContent = w.copied; }));
  const element = h("div", { class: "sg-q", role: "group", "aria-label": question.prompt },
    h("p", { class: "sg-qp" }, question.prompt), h("div", { class: "sg-qc" }, ...rows.map(({ row }) => row)),
    h("p", { class: "sg-py" }, h("span", {}, cell ? w.keep : w.byHand), text), h("div", { class: "sg-qb" }, put, copy, status));
  return {
    element,
    show(draft) {
      now = draft;
      const current = entryAt(question, draft);
      for (const { name, select, row } of rows) {
        select.value = draft.typed[name] ?? "";
        row.classList.toggle("cur", name === current);
      }
      if (shown === draft.typed) return;
      if (shown) status.textContent = "";
      shown = draft.typed;
      text.textContent = pythonOf(question, draft.typed);
      put.disabled = copy.disabled = !Object.values(draft.typed).some(Boolean);
    },
  };
}
