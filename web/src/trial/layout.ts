// Places the unfolded nodes of a tree by d3-hierarchy, left to right. Computed when something is
// folded; replaying and moving about do not change it.
import { hierarchy, tree } from "d3-hierarchy";
import type { Placed, Shape } from "./shape";

export const ROW = 26;

/** How far apart depths are, so that nine labels of ten are read whole. */
export function columnOf(shape: Shape): number {
  const lengths: number[] = [];
  const every = Math.max(1, Math.floor(shape.size / 500));
  for (let node = 0; node < shape.size; node += every) lengths.push(shape.label(node).length);
  lengths.sort((a, b) => a - b);
  return Math.max(130, Math.min(330, 64 + 8.2 * (lengths[Math.floor(lengths.length * 0.9)] ?? 0)));
}

/** The nodes below each node, as a list per node in one array. */
export class Children {
  private readonly starts: Uint32Array;
  private readonly nodes: Uint32Array;

  constructor(parent: Int32Array) {
    const size = parent.length;
    this.starts = new Uint32Array(size + 1);
    for (let node = 0; node < size; node++) if (parent[node] >= 0) this.starts[parent[node] + 1]++;
    for (let node = 0; node < size; node++) this.starts[node + 1] += this.starts[node];
    const next = this.starts.slice();
    this.nodes = new Uint32Array(this.starts[size]);
    for (let node = 0; node < size; node++) {
      if (parent[node] >= 0) this.nodes[next[parent[node]]++] = node;
    }
  }

  of(node: number): Uint32Array {
    return this.nodes.subarray(this.starts[node], this.starts[node + 1]);
  }

  count(node: number): number {
    return this.starts[node + 1] - this.starts[node];
  }
}

/** Places all nodes below a root that no folded node hides. */
export function place(
  shape: Shape,
  children: Children,
  root: number,
  folded: Uint8Array,
  column: number,
): Placed {
  const top = hierarchy<number>(root, (node) =>
    folded[node] ? null : Array.from(children.of(node)),
  );
  const laid = tree<number>()
    .nodeSize([ROW, column])
    .separation((a, b) => (a.children || b.children ? 1.4 : a.parent === b.parent ? 1 : 1.2))(top);
  const x = new Float32Array(shape.size).fill(NaN);
  const y = new Float32Array(shape.size).fill(NaN);
  const depth = new Uint16Array(shape.size);
  const levels: number[][] = [];
  let low = Infinity;
  let high = -Infinity;
  laid.each((item) => {
    const node = item.data;
    x[node] = item.y;
    y[node] = item.x;
    depth[node] = item.depth;
    (levels[item.depth] ??= []).push(node);
    if (item.x < low) low = item.x;
    if (item.x > high) high = item.x;
  });
  return { x, y, depth, levels: levels.map((nodes) => Uint32Array.from(nodes)), top: low, bottom: high };
}

/** Folds nodes so that about `most` are shown: the important ones first. */
export function foldAllBut(
  shape: Shape,
  children: Children,
  root: number,
  most: number,
): Uint8Array {
  const folded = new Uint8Array(shape.size).fill(1);
  let shown = 1;
  // From the most important on; a heap is not needed for some hundreds.
  const open = [root];
  while (open.length > 0 && shown < most) {
    let best = 0;
    for (let at = 1; at < open.length; at++) {
      if (shape.importance(open[at]) > shape.importance(open[best])) best = at;
    }
    const node = open[best];
    open[best] = open[open.length - 1];
    open.pop();
    if (children.count(node) === 0) continue;
    folded[node] = 0;
    shown += children.count(node);
    open.push(...children.of(node));
  }
  return folded;
}
