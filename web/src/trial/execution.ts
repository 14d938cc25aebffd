// What really happened, beside the plan: options, programs, feedback, what the world says.
import { el } from "../shared/dom";
import { count, inline, short } from "../shared/format";
import type { Trace } from "./data";
import { rows } from "./values";

interface Step {
  action?: unknown;
  reward?: unknown;
  text?: unknown;
  obstacle?: unknown;
  done?: unknown;
}

interface Attempt {
  option?: unknown;
  program?: unknown;
  feedback?: unknown;
  done?: unknown;
  actions?: unknown;
  m?: unknown;
  seconds?: unknown;
}

const AT_ONCE = 200;

/** The real steps and, where the planner has them, its attempts; null if there are none. */
export async function execution(trace: Trace, goTo: (moment: number) => void): Promise<HTMLElement | null> {
  const steps = await trace.told<Step>("execution");
  const executions = trace.about.summary.executions;
  const runs = Array.isArray(executions) ? (executions as Record<string, unknown>[]) : [];
  if (steps.length === 0 && runs.length === 0) return null;
  return el(
    "div",
    {},
    steps.length > 0 && stepTable(trace, steps, goTo),
    ...runs.filter((run) => run !== null && Array.isArray(run.attempts)).map((run, at) => attempts(run, at, runs.length)),
  );
}

function stepTable(trace: Trace, steps: { moment: number; value: Step }[], goTo: (moment: number) => void): HTMLElement {
  const { plan, summary } = trace.about;
  // Planners that decide step by step have no plan but what they did, or what they did in the end.
  const all = steps.map(({ value }) => inline(value.action));
  const done = steps.filter(({ value }) => !value.obstacle).map(({ value }) => inline(value.action));
  const decided = all.every((action, at) => plan[at] === action) || plan.join("\n") === done.slice(done.length - plan.length).join("\n");
  const apart = "executions" in summary || !decided;
  const row = ({ moment, value }: { moment: number; value: Step }, at: number) =>
    el(
      "tr",
      {},
      el("td", { class: "number soft" }, at + 1),
      el("td", {}, el("button", { type: "button", class: "link", onclick: () => goTo(moment) }, inline(value.action))),
      apart && el("td", {}, plan[at] === inline(value.action) ? el("span", { class: "soft" }, "as planned") : (plan[at] ?? "–")),
      el("td", {}, value.obstacle ? el("span", { class: "bad-text" }, `✗ ${inline(value.obstacle)}`) : inline(value.text || "done")),
      el("td", { class: "number" }, short(Number(value.reward ?? NaN))),
    );
  const body = el("tbody", {}, ...steps.slice(0, AT_ONCE).map(row));
  const more = el(
    "button",
    {
      type: "button",
      onclick: () => {
        body.append(...steps.slice(AT_ONCE).map((step, at) => row(step, AT_ONCE + at)));
        more.remove();
      },
    },
    `All ${count(steps.length)} steps`,
  );
  return el(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": "Real steps" },
    el(
      "table",
      { class: "wide" },
      el("thead", {}, el("tr", {}, el("th", {}, el("span", { class: "hidden-label" }, "Number")), el("th", {}, "Carried out"), apart && el("th", {}, "Plan"), el("th", {}, "What the world says"), el("th", { class: "number" }, "Reward"))),
      body,
    ),
    steps.length > AT_ONCE && more,
  );
}

function attempts(run: Record<string, unknown>, at: number, of: number): HTMLElement {
  const list = (run.attempts as Attempt[]).filter((one) => one !== null && typeof one === "object");
  const won = run.won === true ? "✓ reached the goal" : run.won === false ? "✗ did not reach the goal" : "";
  return el(
    "section",
    { class: "part" },
    el("h3", {}, of > 1 ? `Execution ${at + 1}` : "Options as they were executed", " ", el("span", { class: "soft" }, won)),
    el(
      "ol",
      { class: "attempts" },
      ...list.map((one) =>
        el(
          "li",
          {},
          el("strong", {}, inline(one.option)),
          " ",
          el("span", { class: one.done === true ? "good-text" : "bad-text" }, one.done === true ? "✓" : "✗"),
          ` ${inline(one.feedback)} `,
          el("span", { class: "soft" }, `${inline(one.seconds)} s of the game${Number(one.m) > 1 ? `, try ${inline(one.m)}` : ""}`),
          typeof one.program === "string" && el("details", {}, el("summary", {}, "Program"), el("pre", {}, one.program)),
        ),
      ),
    ),
  );
}

/** What is left of the summary, for planners that this page knows nothing special about. */
export function remaining(summary: Record<string, unknown>, shown: readonly string[]): HTMLElement | null {
  const entries = Object.entries(summary).filter(([key]) => !shown.includes(key));
  return entries.length === 0 ? null : rows(entries, 1);
}
