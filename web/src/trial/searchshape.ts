// The search trees of a trace as a shape: width by N, colour by Q, at the moment that is shown.
import { short } from "../shared/format";
import { step } from "./colours";
import type { Trace } from "./data";
import type { Replay } from "./replay";
import type { Shape } from "./shape";

export class SearchShape implements Shape {
  readonly size: number;
  readonly parent: Int32Array;
  low = 0;
  high = 0;
  private most = 1;
  private readonly edge: ArrayLike<number>;
  private readonly born: ArrayLike<number>;
  private readonly lastVisits: Uint32Array;

  constructor(
    private readonly trace: Trace,
    private readonly replay: Replay,
  ) {
    this.size = trace.nodeCount;
    this.parent = trace.parent;
    this.edge = trace.column("node_edge");
    this.born = trace.column("node_moment");
    this.lastVisits = replay.visits.slice();
  }

  /** Reads off what the most visits and the range of Q in a tree are, for widths and colours. */
  measure(tree: number): void {
    const trees = this.trace.column("node_tree");
    this.most = 1;
    this.low = Infinity;
    this.high = -Infinity;
    for (let node = 0; node < this.size; node++) {
      const edge = this.edge[node];
      if (trees[node] !== tree || edge < 0 || this.replay.visits[edge] === 0) continue;
      this.most = Math.max(this.most, this.replay.visits[edge]);
      const value = this.replay.values[edge];
      if (value < this.low) this.low = value;
      if (value > this.high) this.high = value;
    }
  }

  label(node: number): string {
    return this.trace.action(node);
  }

  detail(node: number): string {
    const edge = this.edge[node];
    if (edge < 0) return "root";
    return `N ${this.replay.visits[edge]}, Q ${short(this.replay.values[edge])}`;
  }

  exists(node: number): boolean {
    return this.born[node] <= this.replay.moment;
  }

  weight(node: number): number {
    const edge = this.edge[node];
    return edge < 0 ? 1 : Math.sqrt(this.replay.visits[edge] / this.most);
  }

  colour(node: number): number | "faint" {
    const edge = this.edge[node];
    if (edge < 0 || this.replay.visits[edge] === 0) return "faint";
    return step(this.replay.values[edge], this.low, this.high);
  }

  importance(node: number): number {
    const edge = this.edge[node];
    return edge < 0 ? Infinity : this.lastVisits[edge];
  }
}
