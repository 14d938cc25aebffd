// One trace, as viewer/trial_page.py embeds it: columns of numbers, short strings, long texts.
import { readBlock, readJson } from "../shared/blocks";

export const KINDS = [
  "search",
  "simulation",
  "decision",
  "execution",
  "belief",
  "memory",
  "subtask",
  "graph",
] as const;
export type Kind = (typeof KINDS)[number];

type Column = Uint8Array | Uint32Array | Int32Array | Float32Array | Float64Array;

export interface About {
  name: string;
  header: Record<string, unknown>;
  damage: string[];
  success: boolean | null;
  plan: string[];
  seconds: number | null;
  nodes: number;
  metrics: Record<string, unknown>;
  summary: Record<string, unknown>;
  prompts: Record<string, { text?: unknown; tokens?: unknown; model?: unknown }>;
  strings: string[];
  starts: number[];
  columns: Record<string, [string, number, number]>;
}

export interface Question {
  asked?: string;
  system?: string | null;
  turns?: { role: string | null; text: string; images?: number }[];
  temperature?: number;
  sample?: number;
  answer?: string;
  finish?: string;
  choices?: string[];
  logprobs?: number[];
  shared?: { tokens: number; cached_tokens: number; requests: number };
  /** The message, the system message included, and the character. */
  cached_end?: [number, number];
  /** Why it is not known. */
  end_unknown?: string;
}

const ARRAYS = {
  u1: Uint8Array,
  u4: Uint32Array,
  i4: Int32Array,
  f4: Float32Array,
  f8: Float64Array,
} as const;

/** A trace. Columns are typed arrays; see `_TYPES` in viewer/columns.py. */
export class Trace {
  readonly nodeCount: number;
  readonly edgeCount: number;
  readonly momentCount: number;
  readonly questionCount: number;
  /** The node above each node, or -1. */
  readonly parent: Int32Array;
  private readonly chunks = new Map<number, Promise<string[]>>();

  constructor(
    readonly place: number,
    readonly about: About,
    private readonly columns: Record<string, Column>,
  ) {
    this.nodeCount = this.column("node_tree").length;
    this.edgeCount = this.column("edge_node").length;
    this.momentCount = this.column("moment_kind").length;
    this.questionCount = this.column("question_at").length;
    const edge = this.column("node_edge");
    const source = this.column("edge_node");
    this.parent = new Int32Array(this.nodeCount);
    for (let node = 0; node < this.nodeCount; node++) {
      this.parent[node] = edge[node] < 0 ? -1 : source[edge[node]];
    }
  }

  column(name: string): Column {
    return this.columns[name];
  }

  /** The kind of a moment. */
  kind(moment: number): Kind {
    return KINDS[this.column("moment_kind")[moment]];
  }

  string(number: number): string {
    return this.about.strings[number] ?? "";
  }

  /** The action that led to a node; "start" of a first root. */
  action(node: number): string {
    const edge = this.column("node_edge")[node];
    return edge < 0 ? "start" : this.string(this.column("edge_action")[edge]);
  }

  /** A long text, unpacked when it is wanted. */
  async text(number: number): Promise<string> {
    const { starts } = this.about;
    let low = 0;
    let high = starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (starts[middle] <= number) low = middle;
      else high = middle - 1;
    }
    let chunk = this.chunks.get(low);
    if (chunk === undefined) {
      chunk = readJson<string[]>(`${this.place}-texts-${low}`).then((texts) => texts ?? []);
      this.chunks.set(low, chunk);
      // A few chunks are enough to page through neighbours.
      if (this.chunks.size > 24) this.chunks.delete(this.chunks.keys().next().value as number);
    }
    return (await chunk)[number - starts[low]] ?? "";
  }

  /** A long text that is JSON; null for the empty one. */
  async json<T>(number: number): Promise<T | null> {
    const text = await this.text(number);
    return text === "" ? null : (JSON.parse(text) as T);
  }

  /** The JSON note of each moment of a kind, in order, with the moment. */
  async told<T>(kind: Kind): Promise<{ moment: number; value: T }[]> {
    const found: { moment: number; value: T }[] = [];
    const notes = this.column("moment_note");
    for (let moment = 0; moment < this.momentCount; moment++) {
      if (this.kind(moment) !== kind) continue;
      const value = await this.json<T>(notes[moment]);
      if (value !== null) found.push({ moment, value });
    }
    return found;
  }
}

/** Reads a trace of the page. */
export async function readTrace(place: number): Promise<Trace> {
  const [about, bytes] = await Promise.all([
    readJson<About>(`${place}-about`),
    readBlock(`${place}-columns`),
  ]);
  if (about === null || bytes === null) throw new Error("The page lacks its data.");
  const columns: Record<string, Column> = {};
  for (const [name, [type, offset, length]] of Object.entries(about.columns)) {
    columns[name] = new ARRAYS[type as keyof typeof ARRAYS](bytes.buffer, offset, length);
  }
  return new Trace(place, about, columns);
}
