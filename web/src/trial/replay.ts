// N and Q of every edge at any moment. Steps forward apply a moment's updates, steps back undo them.
import type { Trace } from "./data";

export class Replay {
  readonly visits: Uint32Array;
  readonly values: Float64Array;
  /** The moment that is shown: all up to it has happened. */
  moment = -1;
  private readonly before: { visits: Uint32Array; values: Float64Array };

  constructor(private readonly trace: Trace) {
    this.visits = new Uint32Array(trace.edgeCount);
    this.values = new Float64Array(trace.edgeCount);
    const length = trace.column("update_edge").length;
    this.before = { visits: new Uint32Array(length), values: new Float64Array(length) };
    const last = trace.momentCount - 1;
    this.to(last);
  }

  /** Goes to a moment. */
  to(moment: number): void {
    const edges = this.trace.column("update_edge");
    const starts = this.trace.column("moment_updates");
    const visits = this.trace.column("update_n");
    const values = this.trace.column("update_q");
    while (this.moment < moment) {
      this.moment++;
      for (let at = starts[this.moment]; at < starts[this.moment + 1]; at++) {
        const edge = edges[at];
        this.before.visits[at] = this.visits[edge];
        this.before.values[at] = this.values[edge];
        this.visits[edge] = visits[at];
        this.values[edge] = values[at];
      }
    }
    while (this.moment > moment) {
      for (let at = starts[this.moment + 1] - 1; at >= starts[this.moment]; at--) {
        this.visits[edges[at]] = this.before.visits[at];
        this.values[edges[at]] = this.before.values[at];
      }
      this.moment--;
    }
  }

  /** The nodes that a moment passed: of a simulation its path, of a search or decision its root. */
  path(moment: number): number[] {
    if (moment < 0) return [];
    const starts = this.trace.column("moment_path");
    return Array.from(this.trace.column("path_node").subarray(starts[moment], starts[moment + 1]));
  }
}
