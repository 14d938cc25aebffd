// The questions of a node: those that its simulations asked there, and those about its action.
import { el } from "../shared/dom";
import { count, counted, seconds } from "../shared/format";
import type { Trace } from "./data";
import { question } from "./prompt";

const MOST = 200;

export class Asked {
  private readonly at = new Map<number, number[]>();

  constructor(private readonly trace: Trace) {
    trace.column("question_node").forEach((node: number, at: number) => {
      const list = this.at.get(node);
      if (list === undefined) this.at.set(node, [at]);
      else list.push(at);
    });
  }

  /** All of them with what they cost; `proposed` is what the node's action was before its repair. */
  of(node: number, proposed: unknown): HTMLElement {
    const { trace } = this;
    const about = (at: number) => trace.string(trace.column("question_about")[at]);
    const here = this.at.get(node) ?? [];
    const edge = trace.column("node_edge")[node];
    const above = (this.at.get(trace.parent[node]) ?? []).filter((at) => {
      const named = trace.column("question_edge")[at];
      return edge >= 0 && (named === edge || (named < 0 && about(at) !== "" && about(at) === proposed));
    });
    const aside = here.filter((at) => about(at) !== "");
    return el(
      "div",
      {},
      above.length > 0 && this.cost("About the action that leads here", above),
      ...this.list(above),
      here.length > 0 && this.cost("Asked here", here),
      ...this.list(here.filter((at) => about(at) === "")),
      aside.length > 0 && this.folded(aside),
      here.length + above.length === 0 && el("p", { class: "soft" }, "None: rules answered, or it was known from before."),
    );
  }

  private cost(title: string, questions: number[]): HTMLElement {
    const sum = (name: string) => questions.reduce((total, at) => total + this.trace.column(`question_${name}`)[at], 0);
    const costs = [
      counted(questions.length, "question"),
      `${count(sum("prompt"))} tokens read, ${count(sum("cached"))} of them cached`,
      `${count(sum("written"))} written`,
      seconds(sum("seconds")),
    ];
    return el("p", {}, el("strong", {}, title), `: ${costs.join(", ")}`);
  }

  private list(questions: number[]): HTMLElement[] {
    const shown = questions.slice(0, MOST).map((at) => question(this.trace, at));
    const rest = questions.length - shown.length;
    return rest > 0 ? [...shown, el("p", { class: "soft" }, `${count(rest)} more are in the list of questions.`)] : shown;
  }

  private folded(questions: number[]): HTMLElement {
    const made = el("details", {}, el("summary", {}, `${count(questions.length)} of them about its actions`));
    made.addEventListener("toggle", () => {
      if (made.open && made.childElementCount === 1) made.append(...this.list(questions));
    });
    return made;
  }
}
