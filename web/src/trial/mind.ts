// What the agent believes, remembers and has learnt.
import { el, fill } from "../shared/dom";
import { inline, short } from "../shared/format";
import type { Trace } from "./data";
import { rows } from "./values";

const MOST_PLACES = 6;

/** The last belief at a moment, in words that need no list of a hundred numbers. */
export class Belief {
  readonly element = el("div", { class: "belief" });
  private turn = 0;

  constructor(
    private readonly trace: Trace,
    private readonly kind: "belief" | "memory",
  ) {}

  /** Whether the trace has any. */
  get exists(): boolean {
    for (let moment = 0; moment < this.trace.momentCount; moment++) if (this.trace.kind(moment) === this.kind) return true;
    return false;
  }

  async show(moment: number): Promise<void> {
    const turn = ++this.turn;
    const notes: number[] = [];
    for (let at = moment; at >= 0; at--) {
      if (this.trace.kind(at) !== this.kind) continue;
      notes.unshift(this.trace.column("moment_note")[at]);
      if (this.kind === "belief") break;
    }
    const told = await Promise.all(notes.map((note) => this.trace.json<Record<string, unknown>>(note)));
    if (turn !== this.turn) return;
    if (told.length === 0) fill(this.element, el("p", { class: "soft" }, "Nothing at this moment."));
    else if (this.kind === "belief") fill(this.element, belief(told[0]?.belief));
    else fill(this.element, el("ul", {}, ...told.map((one) => el("li", {}, el("span", { class: "soft" }, `${inline(one?.kind)}: `), inline(one?.text)))));
  }
}

function belief(given: unknown): HTMLElement {
  if (given === null || typeof given !== "object") return el("p", { class: "state" }, inline(given));
  const entries = Object.entries(given);
  if (entries.every(([, one]) => typeof one === "number")) return shares(entries as [string, number][]);
  return el(
    "div",
    { class: "beliefs" },
    ...entries.map(([thing, places]) =>
      places !== null && typeof places === "object" && Object.values(places).every((one) => typeof one === "number")
        ? el("section", {}, el("h4", {}, thing), shares(Object.entries(places as Record<string, number>)))
        : el("section", {}, el("h4", {}, thing), rows([["", places]], 1)),
    ),
  );
}

/** Descriptions with their weights, the heaviest first. */
function shares(entries: [string, number][]): HTMLElement {
  const total = entries.reduce((sum, [, weight]) => sum + weight, 0) || 1;
  const sorted = entries.toSorted((a, b) => b[1] - a[1]);
  const row = ([words, weight]: [string, number]) => {
    const bar = el("span", { class: "bar" }, el("span", {}));
    (bar.firstElementChild as HTMLElement).style.width = `${(100 * weight) / total}%`;
    const text = words.length > 240 ? el("details", {}, el("summary", {}, `${words.slice(0, 200)}…`), words) : words;
    return el("tr", {}, el("td", {}, text), el("td", {}, bar), el("td", { class: "number" }, short(weight)));
  };
  if (entries.length === 0) return el("p", { class: "soft" }, "nothing to tell");
  const rest = sorted.slice(MOST_PLACES);
  return el(
    "table",
    { class: "scores" },
    el("tbody", {}, ...sorted.slice(0, MOST_PLACES).map(row)),
    rest.length > 0 && el("tbody", {}, el("tr", {}, el("td", { class: "soft", colspan: 2 }, `${rest.length} others`), el("td", { class: "number" }, short(rest.reduce((sum, [, weight]) => sum + weight, 0))))),
  );
}

type Needs = Record<string, Record<string, number>>;

/** XENON's dependency graph: what each item needs as it was predicted and as it was learnt. */
export function dependencies(summary: Record<string, unknown>): HTMLElement | null {
  const { predicted, graph } = summary;
  if (!isNeeds(graph) && !isNeeds(predicted)) return null;
  const learnt = isNeeds(graph) ? graph : {};
  const before = isNeeds(predicted) ? predicted : {};
  const obtained = new Set(Array.isArray(summary.obtained) ? summary.obtained.flat().map(String) : []);
  const items = [...new Set([...Object.keys(before), ...Object.keys(learnt)])].sort();
  return el(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": "Learnt dependencies" },
    el(
      "table",
      { class: "wide" },
      el("thead", {}, el("tr", {}, ...["Item", "Predicted to need", "Learnt to need", "Revisions"].map((name) => el("th", {}, name)))),
      el(
        "tbody",
        {},
        ...items.map((item) =>
          el(
            "tr",
            {},
            el("td", {}, el("strong", {}, item), obtained.has(item) && el("span", { class: "good-text" }, " ✓ obtained")),
            el("td", {}, chips(before[item], learnt[item])),
            el("td", {}, chips(learnt[item], before[item])),
            el("td", { class: "number" }, inline((summary.revisions as Record<string, unknown> | undefined)?.[item] ?? 0)),
          ),
        ),
      ),
    ),
  );
}

/** What an item needs; what the other side says otherwise is marked. */
function chips(needs: Record<string, number> | undefined, other: Record<string, number> | undefined): HTMLElement {
  if (needs === undefined) return el("span", { class: "soft" }, "–");
  const entries = Object.entries(needs);
  if (entries.length === 0) return el("span", { class: "soft" }, "nothing");
  return el(
    "span",
    { class: "chips" },
    ...entries.map(([name, number]) => el("span", { class: other?.[name] === number ? "chip" : "chip differs" }, `${inline(number)} ${name}`)),
  );
}

function isNeeds(value: unknown): value is Needs {
  return (
    value !== null &&
    typeof value === "object" &&
    !Array.isArray(value) &&
    Object.values(value).every((needs) => needs !== null && typeof needs === "object" && !Array.isArray(needs))
  );
}
