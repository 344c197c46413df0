/** Ways through the graph, as pure sets of parts. */

/** Source and target of a line over which gradients run. */
export type Line = readonly [string, string];

/** All that can be reached from one part: along the lines, or against them. */
function reached(lines: Line[], from: string, against: boolean): Set<string> {
  const next = new Map<string, string[]>();
  for (const [source, target] of lines) {
    const [here, there] = against ? [target, source] : [source, target];
    next.set(here, [...(next.get(here) ?? []), there]);
  }
  const found = new Set([from]);
  for (const part of found) for (const there of next.get(part) ?? []) found.add(there);
  return found;
}

/** What the gradient comes through on its way from `root` to a part, from `root` to all; a part alone where none comes. */
export function way(lines: Line[], root: string, to: string): Set<string> {
  const before = reached(lines, root, true);
  if (to === root) return before;
  return new Set([to, ...(before.has(to) ? [...reached(lines, to, false)].filter((part) => before.has(part)) : [])]);
}
