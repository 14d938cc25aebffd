// DRIP's reasoning tree as a shape: each subtask as its last line up to the moment says.
import { inline } from "../shared/format";
import type { Trace } from "./data";
import type { Replay } from "./replay";
import type { Shape } from "./shape";

interface Line {
  id?: unknown;
  above?: unknown;
  subtask?: unknown;
  verdict?: unknown;
  reason?: unknown;
  status?: unknown;
  steps?: unknown;
  instead?: unknown;
}

export class SubtaskShape implements Shape {
  readonly size: number;
  readonly parent: Int32Array;
  private readonly lines: { moment: number; value: Line }[][];

  /** The shape of a trace's subtasks; null if it has none. */
  static async of(trace: Trace, replay: Replay): Promise<SubtaskShape | null> {
    const told = await trace.told<Line>("subtask");
    return told.length === 0 ? null : new SubtaskShape(told, replay);
  }

  private constructor(
    told: { moment: number; value: Line }[],
    private readonly replay: Replay,
  ) {
    const places = new Map<unknown, number>();
    this.lines = [];
    const above: number[] = [];
    for (const line of told) {
      const { id } = line.value;
      const known = places.get(id);
      if (known !== undefined) this.lines[known].push(line);
      else {
        places.set(id, this.lines.length);
        // Where a damaged trace lacks the node above, the first one takes its place.
        above.push(this.lines.length === 0 ? -1 : (places.get(line.value.above) ?? 0));
        this.lines.push([line]);
      }
    }
    this.size = this.lines.length;
    this.parent = Int32Array.from(above);
  }

  /** What the last line up to the moment says of a node. */
  now(node: number): Line {
    const { moment } = this.replay;
    const lines = this.lines[node];
    return (lines.findLast((line) => line.moment <= moment) ?? lines[0]).value;
  }

  label(node: number): string {
    const { subtask, verdict, status } = this.now(node);
    const sign = verdict === "done" || verdict === "true" ? "✓ " : verdict === "false" || status === "given up" ? "✗ " : "";
    return `${sign}${inline(subtask ?? "goal")}`;
  }

  detail(node: number): string {
    const { verdict, status } = this.now(node);
    return `${inline(status)}, ${inline(verdict)}`;
  }

  exists(node: number): boolean {
    return this.lines[node][0].moment <= this.replay.moment;
  }

  weight(node: number): number {
    const { steps } = this.now(node);
    return Array.isArray(steps) && steps.length > 0 ? 0.3 : 0.08;
  }

  colour(node: number): "good" | "bad" | "faint" {
    const { verdict, status } = this.now(node);
    if (verdict === "false" || status === "given up") return "bad";
    return status === "closed" || verdict === "done" || verdict === "true" ? "good" : "faint";
  }

  importance(node: number): number {
    return -node;
  }

  /** All that the trace says of a node. */
  about(node: number): [string, unknown][] {
    return Object.entries(this.now(node)).filter(([key]) => key !== "above" && key !== "id");
  }
}
