// The first thing seen: what was planned, whether it worked in the world, what it cost.
import { el } from "../shared/dom";
import { count, counted, inline, seconds } from "../shared/format";
import type { Trace } from "./data";

const FIRST = 12;

/** The summary of a trace. */
export function head(trace: Trace): HTMLElement {
  const { about } = trace;
  const { header } = about;
  const goal = about.summary.goal;
  return el(
    "header",
    { class: "head" },
    el(
      "div",
      { class: "title" },
      el("h1", {}, header.planner ? `${inline(header.planner)} plans ${inline(header.task ?? "")}` : about.name),
      verdict(about.success),
    ),
    el(
      "p",
      { class: "soft" },
      [header.domain && `in ${inline(header.domain)}`, header.model && `with ${words(header.model)}`, header.seed !== undefined && `seed ${inline(header.seed)}`, about.name]
        .filter(Boolean)
        .join(" · "),
    ),
    typeof goal === "string" && el("p", { class: "goal" }, goal),
    ...about.damage.map((sentence) => el("p", { class: "notice", role: "note" }, sentence)),
    el("div", { class: "cards" }, planned(trace), world(trace), cost(trace)),
  );
}

const words = (model: unknown): string => (model === "none" ? "no model" : inline(model));

function verdict(success: boolean | null): HTMLElement {
  if (success === null) return el("span", { class: "verdict unknown" }, "Not judged");
  return success
    ? el("span", { class: "verdict good" }, "✓ Goal reached")
    : el("span", { class: "verdict bad" }, "✗ Goal not reached");
}

function planned(trace: Trace): HTMLElement {
  const { plan } = trace.about;
  const items = plan.map((step) => el("li", {}, step));
  const list = el("ol", { class: "plan" }, ...items.slice(0, FIRST));
  const more =
    items.length > FIRST &&
    el(
      "button",
      {
        type: "button",
        onclick: (event: Event) => {
          list.append(...items.slice(FIRST));
          (event.target as HTMLElement).remove();
        },
      },
      `All ${count(items.length)} steps`,
    );
  return card("The plan", plan.length > 0 ? list : el("p", { class: "soft" }, "The trace has no plan."), more);
}

function world(trace: Trace): HTMLElement {
  const { about } = trace;
  const last = about.summary.last ?? (about.summary.execution as Record<string, unknown> | undefined)?.last;
  let steps = 0;
  for (let moment = 0; moment < trace.momentCount; moment++) steps += Number(trace.kind(moment) === "execution");
  const said = typeof last === "string" ? last : "";
  const executions = about.summary.executions;
  const final = said || (Array.isArray(executions) ? String((executions.at(-1) as Record<string, unknown> | null)?.last ?? "") : "");
  const sentence =
    about.success === null
      ? "The trace does not say whether the world was as it should be."
      : about.success
        ? "The world says that the goal was reached."
        : "The world says that the goal was not reached.";
  return card(
    "In the world",
    el("p", {}, sentence),
    el("p", { class: "soft" }, `${counted(steps, "real step")}`),
    final !== "" && el("div", { class: "state", tabindex: 0, role: "region", "aria-label": "The world at the end" }, final),
    Object.keys(about.metrics).length > 0 &&
      el(
        "details",
        {},
        el("summary", {}, "Metrics"),
        el("dl", { class: "values" }, ...Object.entries(about.metrics).flatMap(([key, one]) => [el("dt", {}, key.replaceAll("_", " ")), el("dd", {}, inline(one))])),
      ),
  );
}

function cost(trace: Trace): HTMLElement {
  const sum = (name: string) => {
    let total = 0;
    for (const one of trace.column(`question_${name}`)) total += one;
    return total;
  };
  const ends = Math.max(
    trace.momentCount > 0 ? trace.column("moment_at")[trace.momentCount - 1] : 0,
    ...lastQuestion(trace),
  );
  let simulations = 0;
  for (let moment = 0; moment < trace.momentCount; moment++) {
    if (trace.kind(moment) === "decision") simulations += trace.column("moment_number")[moment] || 0;
  }
  const prompt = sum("prompt");
  const asked: [string, string][] =
    trace.questionCount === 0
      ? [["Questions to a model", "none"]]
      : [
          ["Questions", count(trace.questionCount)],
          ["Tokens read", count(prompt)],
          ["of them cached", prompt > 0 ? `${count(sum("cached"))} (${Math.round((100 * sum("cached")) / prompt)}%)` : "0"],
          ["Tokens written", count(sum("written"))],
        ];
  const searched: [string, string][] =
    trace.about.nodes === 0
      ? []
      : [
          ["Simulations", count(simulations)],
          ["Nodes", count(trace.about.nodes)],
        ];
  const rows: [string, string][] = [["Time", seconds(trace.about.seconds ?? ends)], ...asked, ...searched];
  return card(
    "The cost",
    el("table", {}, el("tbody", {}, ...rows.map(([name, figure]) => el("tr", {}, el("td", {}, name), el("td", { class: "number" }, figure))))),
  );
}

function lastQuestion(trace: Trace): number[] {
  const at = trace.questionCount - 1;
  return at < 0 ? [] : [trace.column("question_at")[at] + trace.column("question_seconds")[at]];
}

function card(title: string, ...children: (Node | null | false | undefined)[]): HTMLElement {
  return el("section", { class: "card" }, el("h2", {}, title), ...children);
}
