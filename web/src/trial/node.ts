// All about one node: how it was reached, what it is worth, its state, its actions, its questions.
import { add, el, fill } from "../shared/dom";
import { count, inline, short } from "../shared/format";
import { Asked } from "./asked";
import { changed } from "./changes";
import type { Trace } from "./data";
import type { Replay } from "./replay";
import { rows } from "./values";

const MOST_ACTIONS = 40;

interface Candidate {
  proposed?: unknown;
  option?: unknown;
  obstacle?: unknown;
  reasoning?: unknown;
}

/** What Tree of Options says of an option in its summary. */
interface Detail {
  candidate?: Candidate;
  reward?: unknown;
  scores?: Record<string, unknown>;
  state?: unknown;
  clipped?: unknown;
  done?: unknown;
  left_out?: unknown;
}

export class NodePanel {
  readonly element = el("section", { class: "panel", "aria-label": "The selected node" });
  private shown = -1;
  private turn = 0;
  private readonly below = new Map<number, number>();
  private readonly edges = new Map<number, number[]>();
  private readonly asked: Asked;

  constructor(
    private readonly trace: Trace,
    private readonly replay: Replay,
    private readonly select: (node: number) => void,
    private readonly goTo: (moment: number) => void,
  ) {
    this.asked = new Asked(trace);
    const edge = trace.column("node_edge");
    for (let node = 0; node < trace.nodeCount; node++) {
      if (edge[node] >= 0 && !this.below.has(edge[node])) this.below.set(edge[node], node);
    }
  }

  /** Shows a node at the moment of the replay. */
  async show(node: number): Promise<void> {
    const turn = ++this.turn;
    const again = node === this.shown;
    this.shown = node;
    if (node < 0) {
      fill(this.element, el("p", { class: "soft" }, "Select a node of the tree."));
      return;
    }
    const { trace } = this;
    const edge = trace.column("node_edge")[node];
    const parent = trace.parent[node];
    const [seen, before, text, detail] = await Promise.all([
      trace.text(trace.column("node_seen")[node]),
      parent < 0 ? "" : trace.text(trace.column("node_seen")[parent]),
      trace.text(trace.column("node_text")[node]),
      this.detail(edge),
    ]);
    const above = await this.detail(parent < 0 ? -1 : trace.column("node_edge")[parent]);
    if (turn !== this.turn) return; // another node was selected meanwhile
    const scroll = again ? this.element.scrollTop : 0;
    const state = typeof detail?.state === "string" ? detail.state : seen;
    const earlier = typeof above?.state === "string" ? above.state : before;
    fill(
      this.element,
      el("h3", {}, trace.action(node)),
      this.way(node),
      edge >= 0 && this.figures(edge, detail),
      detail !== null && this.scores(detail),
      detail !== null && this.feasibility(detail),
      text !== "" && text !== state && part("What the world says", el("div", { class: "state" }, text)),
      state !== "" && part(earlier === "" ? "State" : "State, with what is new marked", changed(earlier, state)),
      this.actions(node),
      this.born(node, detail),
    );
    this.element.scrollTop = scroll;
  }

  private detail(edge: number): Promise<Detail | null> {
    return edge < 0 ? Promise.resolve(null) : this.trace.json(this.trace.column("edge_detail")[edge]);
  }

  /** The actions from the root to the node, each a button. */
  private way(node: number): HTMLElement | null {
    const passed: number[] = [];
    for (let at = this.trace.parent[node]; at >= 0; at = this.trace.parent[at]) passed.unshift(at);
    if (passed.length === 0) return null;
    const shown = passed.slice(-6);
    const nav = el("nav", { class: "way", "aria-label": "Path to this node" });
    if (shown.length < passed.length) nav.append("… › ");
    for (const at of shown) {
      nav.append(el("button", { type: "button", class: "link", onclick: () => this.select(at) }, this.trace.action(at)), " › ");
    }
    return nav;
  }

  private figures(edge: number, detail: Detail | null): HTMLElement {
    const { trace, replay } = this;
    const visits = replay.visits[edge];
    const figures: [string, string][] = [
      ["N visits", count(visits)],
      ["Q value", visits > 0 ? short(replay.values[edge]) : "–"],
      ["π prior", short(trace.column("edge_prior")[edge])],
    ];
    const reward = detail?.reward ?? this.reward(edge);
    if (reward !== null && reward !== undefined) figures.push(["reward", inline(reward)]);
    return el(
      "dl",
      { class: "figures" },
      ...figures.map(([name, figure]) => el("div", {}, el("dt", {}, name), el("dd", {}, figure))),
    );
  }

  /** The reward of the edge's last step up to the moment that is shown. */
  private reward(edge: number): number | null {
    const edges = this.trace.column("update_edge");
    const rewards = this.trace.column("update_reward");
    const end = this.trace.column("moment_updates")[this.replay.moment + 1] ?? edges.length;
    for (let at = end - 1; at >= 0; at--) {
      if (edges[at] === edge && !Number.isNaN(rewards[at])) return rewards[at];
    }
    return null;
  }

  private scores(detail: Detail): HTMLElement | null {
    if (detail.scores === null || typeof detail.scores !== "object") return null;
    const entries = Object.entries(detail.scores);
    if (entries.length === 0) return null;
    return part(
      "Reward by question",
      el(
        "table",
        { class: "scores" },
        ...entries.map(([name, score]) =>
          el(
            "tr",
            {},
            el("td", {}, name.replaceAll("_", " ")),
            el("td", {}, bar(Number(score))),
            el("td", { class: "number" }, inline(score)),
          ),
        ),
      ),
    );
  }

  private feasibility(detail: Detail): HTMLElement | null {
    const { candidate } = detail;
    if (candidate === undefined || candidate === null) return null;
    const repaired = candidate.proposed !== candidate.option;
    const words = candidate.obstacle
      ? `An obstacle was found: ${inline(candidate.obstacle)}`
      : repaired
        ? "It was repaired."
        : "It was found feasible as proposed.";
    return part(
      "Feasibility",
      el("p", {}, words),
      repaired && el("p", {}, "Proposed: ", el("del", {}, inline(candidate.proposed)), " → ", el("ins", {}, inline(candidate.option))),
      Boolean(candidate.reasoning) && el("p", { class: "soft" }, `“${inline(candidate.reasoning)}”`),
      leftOut(detail.left_out),
    );
  }

  private actions(node: number): HTMLElement | null {
    const { trace, replay } = this;
    if (this.edges.size === 0) {
      const of = trace.column("edge_node");
      for (let edge = 0; edge < trace.edgeCount; edge++) {
        const list = this.edges.get(of[edge]);
        if (list === undefined) this.edges.set(of[edge], [edge]);
        else list.push(edge);
      }
    }
    const edges = (this.edges.get(node) ?? []).filter((edge) => trace.column("edge_moment")[edge] <= replay.moment);
    if (edges.length === 0) return null;
    edges.sort((a, b) => replay.visits[b] - replay.visits[a] || trace.column("edge_prior")[b] - trace.column("edge_prior")[a]);
    const row = (edge: number) => {
      const child = this.below.get(edge);
      const there = child !== undefined && trace.column("node_moment")[child] <= replay.moment;
      const name = trace.string(trace.column("edge_action")[edge]);
      const cell = el("td", {}, there ? el("button", { type: "button", class: "link", onclick: () => this.select(child) }, name) : name);
      if (!there && trace.column("edge_detail")[edge] > 0) cell.append(this.untried(edge));
      return el(
        "tr",
        {},
        cell,
        el("td", { class: "number" }, short(trace.column("edge_prior")[edge])),
        el("td", { class: "number" }, count(replay.visits[edge])),
        el("td", { class: "number" }, replay.visits[edge] > 0 ? short(replay.values[edge]) : "–"),
      );
    };
    const body = el("tbody", {}, ...edges.slice(0, MOST_ACTIONS).map(row));
    const table = el(
      "table",
      { class: "actions" },
      el("thead", {}, el("tr", {}, el("th", {}, "Action"), ...["π", "N", "Q"].map((name) => el("th", { class: "number" }, name)))),
      body,
    );
    const more =
      edges.length > MOST_ACTIONS &&
      el(
        "button",
        {
          type: "button",
          onclick: (event: Event) => {
            add(body, ...edges.slice(MOST_ACTIONS).map(row));
            (event.target as HTMLElement).remove();
          },
        },
        `Show ${count(edges.length - MOST_ACTIONS)} more`,
      );
    return part("Actions from here", table, more);
  }

  /** What is known of an option that no simulation tried. */
  private untried(edge: number): HTMLElement {
    const made = el("details", {}, el("summary", { class: "soft" }, "not tried"));
    made.addEventListener("toggle", () => {
      if (!made.open || made.childElementCount > 1) return;
      void this.trace
        .json<Record<string, unknown>>(this.trace.column("edge_detail")[edge])
        .then((detail) => made.append(rows(Object.entries(detail ?? {}))));
    });
    return made;
  }

  private born(node: number, detail: Detail | null): HTMLElement | null {
    const { trace } = this;
    const moment = trace.column("node_moment")[node];
    if (moment >= trace.momentCount) return null;
    const kind = trace.kind(moment);
    const number = trace.column("moment_number")[moment];
    const name = Number.isNaN(number) ? kind : `${kind} ${count(number)}`;
    const added = el("button", { type: "button", class: "link", onclick: () => this.goTo(moment) }, `Added by ${name}`);
    if (trace.questionCount > 0) {
      return part("Where it comes from", el("p", {}, added), this.asked.of(node, detail?.candidate?.proposed));
    }
    return kind === "search" ? null : part("Where it comes from", el("p", {}, added, ", without a question to a model."));
  }
}

function leftOut(value: unknown): HTMLElement | null {
  if (!Array.isArray(value) || value.length === 0) return null;
  return el("div", {}, el("p", { class: "soft" }, "Left out below here:"), rows(value.map((item, at) => [`${at + 1}`, item])));
}

function bar(share: number): HTMLElement {
  const meter = el("span", { class: "bar" });
  const inside = el("span", {});
  inside.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  meter.append(inside);
  return meter;
}

function part(title: string, ...children: (Node | string | null | undefined | false)[]): HTMLElement {
  return el("section", { class: "part" }, el("h4", {}, title), ...children);
}
