// XENON's dependency graph as a picture: what an item needs stands below it, and the replay's slider
// sets the moment. The table below it has the same for those who do not see it.
import { el, fill, svg } from "../shared/dom";
import { count, inline } from "../shared/format";
import type { Trace } from "./data";
import { BOX, layered, type Line } from "./layers";

const KNOWN = { learnt: "✓", predicted: "?", wrong: "✗" } as const;
type Known = keyof typeof KNOWN;

interface Belief {
  requires: Map<string, string>;
  action: string;
  known: Known;
  /** What earlier beliefs about the item required and this one does not. */
  gone: Set<string>;
}

type Beliefs = Map<string, Belief>;

interface Edge extends Line {
  quantity: string;
  known: Known;
}

const ALL = "all";
const LAST = "last";
const MOST = 400;
const LETTER = 7.6;

/** The picture of the graph, with a choice of what is shown. */
export class LearntGraph {
  readonly element: HTMLElement;
  private readonly choice: HTMLSelectElement;
  private readonly picture = el("div", { class: "scroll dag", tabindex: 0, role: "region", "aria-label": "Picture of the dependencies" });
  private readonly words = el("p", { class: "moment", "aria-live": "polite" });
  /** How many changes have happened at the moment that is shown. */
  private happened = -1;

  /** The graph of a trace; null if it has none. */
  static async of(trace: Trace): Promise<LearntGraph | null> {
    const told = await trace.told<{ items?: unknown }>("graph");
    const changes = told.map(({ moment, value }) => ({ moment, items: value.items }));
    return changes.length === 0 ? null : new LearntGraph(changes);
  }

  private constructor(private readonly changes: { moment: number; items: unknown }[]) {
    const items = [...this.after(changes.length).beliefs.keys()].sort();
    this.choice = el(
      "select",
      { onchange: () => this.draw() },
      el("option", { value: LAST }, "what changed last, with all that it needs"),
      el("option", { value: ALL }, "all items"),
      ...items.map((item) => el("option", { value: `item ${item}` }, item)),
    );
    this.element = el(
      "div",
      { class: "learnt" },
      el("div", { class: "row" }, el("label", {}, "Show ", this.choice), legend()),
      this.picture,
      this.words,
    );
  }

  /** Shows a moment of the run. */
  show(moment: number): void {
    const later = this.changes.findIndex((change) => change.moment > moment);
    const happened = later < 0 ? this.changes.length : later;
    if (happened === this.happened) return;
    this.happened = happened;
    this.draw();
  }

  /** The first and the last beliefs, in the form of a summary, for the table. */
  summary(): Record<string, unknown> {
    const first = new Map<string, unknown>();
    const now = new Map<string, unknown>();
    const revisions = new Map<string, number>();
    for (const { items } of this.changes) {
      for (const [item, { requires }] of read(items)) {
        const needs = Object.fromEntries(requires);
        if (!first.has(item)) first.set(item, needs);
        else if (JSON.stringify(needs) !== JSON.stringify(now.get(item))) revisions.set(item, (revisions.get(item) ?? 0) + 1);
        now.set(item, needs);
      }
    }
    const { beliefs } = this.after(this.changes.length);
    const obtained = [...beliefs.keys()].filter((item) => beliefs.get(item)?.known === "learnt");
    return { predicted: Object.fromEntries(first), graph: Object.fromEntries(now), obtained, revisions: Object.fromEntries(revisions) };
  }

  /** The beliefs after so many changes, and the item that changed last. */
  private after(happened: number): { beliefs: Beliefs; last: string } {
    const beliefs: Beliefs = new Map();
    let last = "";
    for (const { items } of this.changes.slice(0, happened)) {
      for (const [item, belief] of read(items)) {
        const before = beliefs.get(item);
        for (const one of [...(before?.gone ?? []), ...(before?.requires.keys() ?? [])]) {
          if (!belief.requires.has(one)) belief.gone.add(one);
        }
        beliefs.set(item, belief);
        last = item;
      }
    }
    return { beliefs, last };
  }

  private draw(): void {
    const { beliefs, last } = this.after(this.happened);
    const chosen = this.choice.value;
    const focus = chosen === LAST ? last : chosen.replace(/^item /, "");
    if (beliefs.size === 0 || (chosen !== ALL && !beliefs.has(focus))) {
      fill(this.picture, el("p", { class: "soft" }, "Nothing is believed of this at this moment."));
      fill(this.words);
      return;
    }
    const items = chosen === ALL ? [...beliefs.keys()] : [focus, ...needed(focus, beliefs)];
    const edges = present(items.slice(0, MOST), beliefs);
    // What was wrong is shown of one item only: of all, it would hide what is believed now.
    if (chosen !== ALL) for (const from of beliefs.get(focus)?.gone ?? []) edges.push({ from, to: focus, quantity: "", known: "wrong" });
    const said = chosen === ALL ? told(beliefs) : about(focus, beliefs.get(focus) as Belief);
    const rest = items.length > MOST ? ` The first ${MOST} of ${count(items.length)} are drawn.` : "";
    fill(this.words, said, rest);
    const names = new Set([...items.slice(0, MOST), ...edges.map(({ from }) => from)]);
    fill(this.picture, drawn([...names], edges, beliefs, chosen === ALL ? "" : focus, said));
  }
}

/** What an event says, without what it cannot mean. */
function* read(items: unknown): Generator<[string, Belief]> {
  if (items === null || typeof items !== "object") return;
  for (const [item, said] of Object.entries(items)) {
    if (said === null || typeof said !== "object") continue;
    const { requires, action, known } = said as Record<string, unknown>;
    const needs = requires !== null && typeof requires === "object" ? Object.entries(requires) : [];
    yield [
      item,
      {
        requires: new Map(needs.map(([name, quantity]) => [name, inline(quantity)])),
        action: typeof action === "string" ? action : "",
        known: known === "learnt" || known === "wrong" ? known : "predicted",
        gone: new Set(),
      },
    ];
  }
}

/** All that an item needs, directly or not. */
function needed(item: string, beliefs: Beliefs): Set<string> {
  const found = new Set<string>();
  const open = [item];
  while (open.length > 0) {
    for (const one of beliefs.get(open.pop() as string)?.requires.keys() ?? []) {
      if (one !== item && !found.has(one)) {
        found.add(one);
        open.push(one);
      }
    }
  }
  return found;
}

function present(items: string[], beliefs: Beliefs): Edge[] {
  return items.flatMap((to) => {
    const belief = beliefs.get(to);
    return [...(belief?.requires ?? [])].map(([from, quantity]) => ({ from, to, quantity, known: belief?.known ?? "predicted" }));
  });
}

function drawn(names: string[], edges: Edge[], beliefs: Beliefs, focus: string, said: string): SVGElement {
  const label = (name: string) => {
    const belief = beliefs.get(name);
    return `${belief === undefined ? "" : `${KNOWN[belief.known]} `}${name}${belief?.action ? ` · ${belief.action}` : ""}`;
  };
  const wide = (name: string) => label(name).length * LETTER + 16;
  // What was replaced does not move what is believed now.
  const believed = ({ from, to }: Edge) => beliefs.get(to)?.requires.has(from) === true;
  const { width, height, boxes, paths, marks } = layered(names, edges, wide, believed, focus !== "");
  const picture = svg("svg", { width, height, role: "img", "aria-label": said });
  edges.forEach((edge, at) => {
    picture.append(svg("path", { d: paths[at], class: `edge ${edge.known}` }, svg("title", {}, spoken(edge))));
  });
  edges.forEach(({ known, quantity }, at) => {
    const mark = known === "wrong" ? "✗" : quantity;
    if (focus !== "") picture.append(svg("text", { ...marks[at], dy: 4, class: `mark ${known}` }, mark));
  });
  for (const [name, box] of boxes) {
    const known = beliefs.get(name)?.known ?? "predicted";
    picture.append(
      svg("rect", { x: box.x, y: box.y, width: box.width, height: BOX, rx: 5, class: `item ${known}${name === focus ? " focus" : ""}` }),
      svg("text", { x: box.x + 8, y: box.y + 16.5 }, label(name)),
    );
  }
  return picture;
}

function spoken({ from, to, quantity, known }: Edge): string {
  return `${to} ${known === "wrong" ? "was believed to need" : "needs"} ${quantity && `${quantity} `}${from}: ${known}`;
}

function about(item: string, { requires, action, known, gone }: Belief): string {
  const needs = [...requires].map(([name, quantity]) => `${quantity} ${name}`).join(", ");
  const before = gone.size === 0 ? "" : ` Believed before, and wrong: ${[...gone].join(", ")}.`;
  return `${KNOWN[known]} ${item} needs ${needs || "nothing"}: ${known}.${action ? ` It is obtained by ${action}.` : ""}${before}`;
}

function told(beliefs: Beliefs): string {
  const number = (known: Known) => [...beliefs.values()].filter((one) => one.known === known).length;
  return `${count(beliefs.size)} items: ${count(number("learnt"))} learnt, ${count(number("predicted"))} predicted, ${count(number("wrong"))} wrong. Choose one to see what was believed of it before.`;
}

function legend(): HTMLElement {
  const sample = (known: Known, words: string) =>
    el(
      "span",
      { class: "key" },
      svg("svg", { width: 34, height: 12, "aria-hidden": "true" }, svg("path", { d: "M1 6H33", class: `edge ${known}` })),
      ` ${KNOWN[known]} ${words}`,
    );
  return el("span", { class: "keys" }, sample("learnt", "learnt"), sample("predicted", "predicted"), sample("wrong", "wrong: it failed or was replaced"));
}
