// One layout by one engine: the graph comes in on stdin, CPU milliseconds and the size go out on stdout.
import { readFileSync } from "node:fs";

const engine = process.argv[2];
const { nodes, edges } = JSON.parse(readFileSync(0, "utf8"));

const engines = {
  async dagre() {
    const { default: dagre } = await import("@dagrejs/dagre");
    const graph = new dagre.graphlib.Graph({ multigraph: true }).setGraph({ rankdir: "LR", nodesep: 24, ranksep: 34 }).setDefaultEdgeLabel(() => ({}));
    for (const { id, width, height } of nodes) graph.setNode(id, { width, height });
    edges.forEach(([from, to], k) => graph.setEdge(from, to, {}, String(k)));
    return () => { dagre.layout(graph); return [graph.graph().width, graph.graph().height]; };
  },
  async elk() {
    const { default: ELK } = await import("elkjs/lib/elk.bundled.js");
    const layoutOptions = { "elk.algorithm": "layered", "elk.direction": "RIGHT", "elk.spacing.nodeNode": "24", "elk.layered.spacing.nodeNodeBetweenLayers": "34" };
    const graph = { id: "root", layoutOptions, children: nodes, edges: edges.map(([from, to], k) => ({ id: `e${k}`, sources: [from], targets: [to] })) };
    const elk = new ELK();
    return async () => { const { width, height } = await elk.layout(graph); return [width, height]; };
  },
  async graphviz() {
    const { Graphviz } = await import("@hpcc-js/wasm-graphviz");
    const graphviz = await Graphviz.load();
    const boxes = nodes.map(({ id, width, height }) => `${id}[width=${(width / 72).toFixed(3)} height=${(height / 72).toFixed(3)}]`);
    const dot = `digraph{rankdir=LR;nodesep=${24 / 72};ranksep=${34 / 72};node[shape=box fixedsize=true label=x]${boxes.join(";")};${edges.map(([from, to]) => `${from}->${to}`).join(";")}}`;
    return () => graphviz.layout(dot, "plain", "dot").split(/\s/, 4).slice(2).map((inches) => 72 * Number(inches));
  },
};

const run = await engines[engine]();
const start = process.cpuUsage();
const [width, height] = await run();
const { user, system } = process.cpuUsage(start);
console.log(JSON.stringify({ cpu_ms: (user + system) / 1000, width, height }));
