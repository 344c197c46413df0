/** Every word of the player, so that another language is another table. */
const en = {
  graph: "Autograd graph, step by step", first: "First step (Home)", prev: "Previous step (←)", next: "Next step (→)",
  last: "Last step (End)", play: "Play (space)", pause: "Pause (space)", step: "Step", code: "code", of: "of",
  check: "Check my prediction", right: "Right", wrong: "Not right", copy: "Copy", copied: "Copied", keep: "Your answer in Python:",
  hidden: "The rest is hidden until you answer.", picked: "Your pick:", version: "version",
  start: "Start", forward: "Forward", inplace: "In-place", backward: "Backward", error: "Error", silent: "Wrong",
  leaf: "leaf tensor", tensor: "tensor", plain: "tensor, needs no gradient", node: "Function", write: "in-place write", op: "not recorded",
};
export type Words = typeof en;
const tables: Record<string, Words> = { en };
export const words = (lang: string): Words => tables[lang] ?? en;
