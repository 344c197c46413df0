/** The cell that an exercise's answer goes into, as JupyterLab and Notebook 7 have it; nothing elsewhere. */

/** A cell's text, read and replaced: where the notebook that holds the picture has an answer cell that may be changed. */
export interface AnswerCell { read(): string; write(text: string): void }

interface SharedCell { getSource(): string; setSource(text: string): void; getMetadata(): { nbgrader?: { solution?: boolean; locked?: boolean; grade_id?: string }; editable?: boolean } }

/** What the widgets' manager of JupyterLab has beside what it promises. */
interface Manager { context?: { model?: { sharedModel?: { cells?: SharedCell[] } } } }

/** The first cell for answers behind the one that asks, `pick("name", …)`; nbgrader's locked cells are never touched. */
export function answerCell(manager: unknown, name: string): AnswerCell | undefined {
  const found = () => {
    const cells = (manager as Manager | undefined)?.context?.model?.sharedModel?.cells ?? [];
    const asks = cells.findIndex((cell) => new RegExp(`\\bpick\\(\\s*["']${name.split(" ")[0]}["']`).test(cell.getSource()));
    const next = asks < 0 ? undefined : cells.slice(asks).find((cell) => cell.getMetadata().nbgrader?.solution);
    const { nbgrader, editable } = next?.getMetadata() ?? {};
    return nbgrader?.locked || editable === false ? undefined : next;
  };
  try {
    return found() && { read: () => found()?.getSource() ?? "", write: (text) => found()?.setSource(text) };
  } catch {
    return undefined; // another notebook than those that this was written for
  }
}
