// One trace: its summary, its tree with the replay, and the parts below.
import { add, el, fill } from "../shared/dom";
import { count, counted, short } from "../shared/format";
import { TreeCanvas } from "./canvas";
import { palette } from "./colours";
import type { Trace } from "./data";
import { engineLane } from "./engine";
import { execution, remaining } from "./execution";
import { LearntGraph } from "./graph";
import { head } from "./head";
import * as links from "./links";
import { Belief, dependencies } from "./mind";
import { NodePanel } from "./node";
import { question } from "./prompt";
import { Replay } from "./replay";
import { SearchShape } from "./searchshape";
import { SubtaskShape } from "./subtasks";
import { Timeline } from "./timeline";
import { rows } from "./values";

const PAGE = 50;
const MOST_FOUND = 1000;
const SHOWN = ["goal", "last", "executions", "execution", "moves", "graph", "predicted", "revisions", "success", "settings", "task", "domain", "seed"];

export class TraceView {
  readonly element: HTMLElement;
  private readonly replay: Replay;
  private readonly shape: SearchShape;
  private readonly panel: NodePanel;
  private readonly timeline: Timeline;
  private readonly belief: Belief;
  private readonly memories: Belief;
  private readonly trees: number[] = [];
  private readonly roots = new Map<number, number>();
  private canvas: TreeCanvas | null = null;
  private tree = -1;
  private readonly legend = el("div", { class: "legend" });
  private readonly count = el("span", { class: "soft", "aria-live": "polite" });
  private chooser: HTMLSelectElement | null = null;
  private searchBox: HTMLInputElement | null = null;
  private subtaskCanvas: TreeCanvas | null = null;
  private graph: LearntGraph | null = null;
  private showSubtask: () => void = () => undefined;
  private matches: number[] = [];

  constructor(
    private readonly trace: Trace,
    private readonly prefix: string,
  ) {
    this.replay = new Replay(trace);
    this.shape = new SearchShape(trace, this.replay);
    this.panel = new NodePanel(trace, this.replay, (node) => this.select(node), (moment) => this.goTo(moment));
    this.timeline = new Timeline(trace, (moment) => this.goTo(moment), trace.about.name);
    this.belief = new Belief(trace, "belief");
    this.memories = new Belief(trace, "memory");
    const number = trace.column("node_tree");
    for (let node = 0; node < trace.nodeCount; node++) {
      if (trace.column("node_edge")[node] < 0 && !this.roots.has(number[node])) {
        this.roots.set(number[node], node);
        this.trees.push(number[node]);
      }
    }
    this.element = el("article", { class: "trace" }, head(trace));
    const work = el("div", { class: "work" });
    if (this.trees.length > 0) {
      this.openCanvas(this.trees[0]);
      work.append(
        el("section", { class: "tree", "aria-label": "Search tree" }, this.tools(), (this.canvas as TreeCanvas).element, this.timeline.element),
        this.panel.element,
      );
      this.panel.element.tabIndex = 0;
    } else if (trace.momentCount > 0) {
      work.classList.add("single");
      work.append(this.timeline.element);
    }
    if (work.childElementCount > 0) this.element.append(work);
    this.below();
    this.follow();
  }

  /** Goes where the address says, or to the end of the run. */
  follow(): void {
    const said = links.read();
    const moment = said.get(`${this.prefix}moment`) ?? this.trace.momentCount - 1;
    this.goTo(Math.min(moment, this.trace.momentCount - 1));
    const node = said.get(`${this.prefix}node`);
    if (node !== undefined && node < this.trace.nodeCount) this.select(node);
    else if (this.canvas !== null) {
      const root = this.roots.get(this.tree);
      if (root !== undefined) {
        this.canvas.selected = root;
        void this.panel.show(root);
      }
    }
  }

  /** The theme has changed. */
  repaint(): void {
    this.canvas?.repaint();
    this.subtaskCanvas?.repaint();
    this.showLegend();
  }

  /** Shows a moment of the run. */
  goTo(moment: number): void {
    const { trace, replay } = this;
    if (trace.momentCount === 0) return;
    replay.to(moment);
    void this.timeline.show(moment);
    void this.belief.show(moment);
    void this.memories.show(moment);
    if (this.canvas !== null) {
      const tree = this.treeAt(moment);
      if (tree >= 0) this.openTree(tree);
      this.shape.measure(this.tree);
      this.canvas.marked = new Set(this.lineage(moment));
      this.canvas.draw();
      this.showLegend();
      void this.panel.show(this.canvas.selected);
    }
    this.subtaskCanvas?.draw();
    this.showSubtask();
    this.graph?.show(moment);
    links.write({ [`${this.prefix}moment`]: moment === trace.momentCount - 1 ? null : moment });
  }

  /** Shows the moment at which this trace first differs from another, and marks it. */
  showDifference(moment: number): void {
    this.goTo(Math.min(moment, this.trace.momentCount - 1));
    this.timeline.mark(moment);
  }

  /** Selects a node, in its tree. */
  select(node: number): void {
    if (this.canvas === null) return;
    const tree = this.trace.column("node_tree")[node];
    this.openTree(tree);
    const born = this.trace.column("node_moment")[node];
    if (born > this.replay.moment) this.goTo(Math.min(born, this.trace.momentCount - 1));
    this.canvas.select(node);
    void this.panel.show(node);
    links.write({ [`${this.prefix}node`]: node });
  }

  private treeAt(moment: number): number {
    const trees = this.trace.column("moment_tree");
    for (let at = moment; at >= 0; at--) if (trees[at] >= 0) return trees[at];
    return this.trees[0] ?? -1;
  }

  /** The nodes that are marked: a simulation's path, or the way to the search's root. */
  private lineage(moment: number): number[] {
    const { trace } = this;
    let at = moment;
    if (trace.kind(moment) !== "simulation") {
      // What was really done leads to the root of the search that began last.
      while (at >= 0 && trace.kind(at) !== "search") at--;
    }
    const passed = this.replay.path(at);
    for (let node = passed[0] ?? -1; node >= 0; node = trace.parent[node]) passed.push(node);
    return passed;
  }

  private openCanvas(tree: number): void {
    this.tree = tree;
    this.shape.measure(tree);
    this.canvas = new TreeCanvas(
      this.shape,
      this.roots.get(tree) as number,
      {
        select: (node) => {
          void this.panel.show(node);
          links.write({ [`${this.prefix}node`]: node });
        },
        key: (event) => this.key(event),
      },
      `Search tree of ${this.trace.about.name}`,
    );
  }

  private openTree(tree: number): void {
    const root = this.roots.get(tree);
    if (tree === this.tree || root === undefined || this.canvas === null) return;
    this.tree = tree;
    this.shape.measure(tree);
    this.canvas.setRoot(root);
    this.canvas.selected = root;
    if (this.chooser !== null) this.chooser.value = String(tree);
  }

  private key(event: KeyboardEvent): void {
    if (event.key === "/") {
      event.preventDefault();
      this.searchBox?.focus();
    } else if (event.key === "[" || event.key === "]") this.timeline.go(this.timeline.moment + (event.key === "]" ? 1 : -1));
  }

  private tools(): HTMLElement {
    const button = (words: string, title: string, act: () => void) =>
      el("button", { type: "button", title, "aria-label": title, onclick: act }, words);
    const canvas = () => this.canvas as TreeCanvas;
    this.searchBox = el("input", {
      type: "search",
      placeholder: "Find an action  /",
      "aria-label": "Find an action in the tree",
      oninput: () => this.find(),
      onkeydown: (event: KeyboardEvent) => {
        if (event.key === "Enter") this.nextMatch();
        if (event.key === "Escape") canvas().canvas.focus();
      },
    });
    if (this.trees.length > 1) {
      this.chooser = el(
        "select",
        { "aria-label": "Tree", onchange: () => this.select(this.roots.get(Number(this.chooser?.value)) as number) },
        ...this.trees.map((tree, at) => el("option", { value: tree }, `Tree ${at + 1} of ${this.trees.length}`)),
      );
    }
    return el(
      "div",
      { class: "tools" },
      this.chooser,
      this.searchBox,
      this.count,
      el("span", { class: "spring" }),
      button("Fit", "Fit the tree (0)", () => canvas().fit()),
      button("+", "Zoom in (+)", () => canvas().zoom(1.25)),
      button("−", "Zoom out (-)", () => canvas().zoom(0.8)),
      button("Unfold all", "Unfold all nodes", () => canvas().unfold(true)),
      button("Fold", "Fold all but the most visited nodes", () => canvas().unfold(false)),
      this.legend,
    );
  }

  private find(): void {
    const words = (this.searchBox?.value ?? "").trim().toLowerCase();
    this.matches = [];
    if (words !== "") {
      const wanted = new Set<number>();
      this.trace.about.strings.forEach((string, at) => {
        if (string.toLowerCase().includes(words)) wanted.add(at);
      });
      const edges = this.trace.column("node_edge");
      const actions = this.trace.column("edge_action");
      for (let node = 0; node < this.trace.nodeCount && this.matches.length < MOST_FOUND; node++) {
        if (edges[node] >= 0 && wanted.has(actions[edges[node]])) this.matches.push(node);
      }
    }
    const full = this.matches.length === MOST_FOUND ? "the first " : "";
    this.count.textContent = words === "" ? "" : `${full}${counted(this.matches.length, "match").replace("matchs", "matches")}`;
    if (this.canvas !== null) {
      this.canvas.found = new Set(this.matches);
      this.canvas.draw();
    }
  }

  private nextMatch(): void {
    if (this.matches.length === 0 || this.canvas === null) return;
    const at = this.matches.indexOf(this.canvas.selected);
    this.select(this.matches[(at + 1) % this.matches.length]);
  }

  private showLegend(): void {
    const { low, high } = this.shape;
    if (!(high >= low)) {
      fill(this.legend);
      return;
    }
    const strip = el("span", { class: "scale", "aria-hidden": "true" });
    strip.style.background = `linear-gradient(90deg, ${palette().scale.join(",")})`;
    fill(this.legend, el("span", {}, `Q ${short(low)}`), strip, el("span", {}, short(high)), el("span", { class: "soft" }, " · width: N"));
  }

  /** The parts below the tree, each only where the trace has something for it. */
  private below(): void {
    const nav = el("nav", { class: "contents", "aria-label": "Parts of this trace" });
    const parts = el("div", { class: "parts" });
    this.element.append(nav, parts);
    const part = (name: string, title: string) => {
      const id = `${this.prefix}${name}`;
      const body = el("section", { class: "card part-below", id, "aria-label": title, hidden: true }, el("h2", {}, title));
      const link = el("a", { href: `#${id}`, hidden: true, onclick: (event: Event) => jump(event, body) }, title);
      nav.append(link);
      parts.append(body);
      return (content: Node | null | false) => {
        if (content) {
          add(body, content);
          body.hidden = false;
          link.hidden = false;
        }
      };
    };
    const { trace } = this;
    const toSubtasks = part("subtasks", "Subtasks");
    void this.subtasks().then(toSubtasks);
    const toSteps = part("steps", "Plan and execution");
    void execution(trace, (moment) => this.goTo(moment)).then(toSteps);
    part("belief", "Belief")(this.belief.exists && this.belief.element);
    part("memories", "Memories")(this.memories.exists && this.memories.element);
    const toGraph = part("graph", "Learnt dependencies");
    void this.learnt().then(toGraph);
    part("engine", "The engine’s time")(engineLane(trace));
    part("questions", "Questions")(this.questions());
    part("more", "More of the planner’s own account")(remaining(trace.about.summary, SHOWN));
    const settings = Object.entries(trace.about.header).filter(([key]) => key !== "format" && key !== "type");
    part("settings", "What was run")(settings.length > 0 && rows(settings, 1));
  }

  private async subtasks(): Promise<HTMLElement | null> {
    const shape = await SubtaskShape.of(this.trace, this.replay);
    if (shape === null) return null;
    const about = el("div", { class: "panel" });
    let chosen = 0;
    this.showSubtask = () => fill(about, el("h3", {}, shape.label(chosen)), rows(shape.about(chosen)));
    const canvas = new TreeCanvas(
      shape,
      0,
      {
        select: (node) => {
          chosen = node;
          this.showSubtask();
        },
        key: (event) => this.key(event),
      },
      "Tree of subtasks",
    );
    this.subtaskCanvas = canvas;
    canvas.selected = 0;
    this.showSubtask();
    return el("div", { class: "work inner" }, canvas.element, about);
  }

  private async learnt(): Promise<HTMLElement | null> {
    this.graph = await LearntGraph.of(this.trace);
    if (this.graph === null) return null;
    this.graph.show(this.replay.moment);
    const { summary } = this.trace.about;
    return el("div", {}, this.graph.element, dependencies(summary) ?? dependencies(this.graph.summary()));
  }

  private questions(): HTMLElement | null {
    const { trace } = this;
    if (trace.questionCount === 0) return null;
    const list = el("div", {});
    let shown = 0;
    const more = el("button", { type: "button", onclick: () => next() });
    const next = () => {
      const end = Math.min(shown + PAGE, trace.questionCount);
      for (; shown < end; shown++) list.append(question(trace, shown));
      more.textContent = `Show more of ${count(trace.questionCount)}`;
      more.hidden = shown === trace.questionCount;
    };
    next();
    return el("div", {}, list, more);
  }
}

function jump(event: Event, target: HTMLElement): void {
  event.preventDefault(); // the address is of the node and the moment
  target.scrollIntoView();
  target.tabIndex = -1;
  target.focus({ preventScroll: true });
}
