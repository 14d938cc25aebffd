import "../shared/theme.css";
import "./main.css";
import { readJson } from "../shared/blocks";
import { el, fill } from "../shared/dom";
import { themeButton } from "../shared/theme";
import type { Cost, Grouping, SweepData } from "./data";
import { paid, usualCost } from "./data";
import { clock, count } from "./format";
import { matrix, tasks } from "./heat";
import { ranking } from "./ranking";
import { scatter } from "./scatter";
import { trialTable } from "./trials";
import { verdicts } from "./verdict";

void readJson<SweepData>("sweep").then((data) => {
  if (data !== null) show(data);
});

function show(data: SweepData): void {
  const trials = trialTable(data);
  const main = el("main");
  const result = el("div");
  let grouping = data.groupings[0];
  let cost = usualCost(grouping.groups);
  const pick: Parameters<typeof tasks>[2] = (fields) => {
    trials.pick(fields);
    section.scrollIntoView({ block: "start" });
    section.focus();
  };
  const draw = () => fill(result, ...results(data, grouping, cost, pick));
  const by = select(
    "by",
    data.groupings.map((one) => one.by.join(" and ")),
    (place) => {
      grouping = data.groupings[place];
      draw();
    },
  );
  const costly = paid(grouping.groups);
  const costs = select(
    "cost",
    costly,
    (place) => {
      cost = costly[place];
      draw();
    },
  );
  costs.value = String(costly.indexOf(cost));
  const section = el("section", { id: "trials", tabindex: -1 }, el("h2", {}, "Trials"), paging(data), trials.element);
  fill(
    main,
    heading(data),
    el(
      "div",
      { class: "choices" },
      data.groupings.length > 1 && el("div", {}, el("label", { for: "by" }, "compare"), by),
      costly.length > 1 && el("div", {}, el("label", { for: "cost" }, "cost in"), costs),
    ),
    result,
    section,
    errors(data),
    about(data),
  );
  document.body.append(main);
  draw();
}

function select(id: string, names: string[], chosen: (place: number) => void): HTMLSelectElement {
  const made = el(
    "select",
    { id, onchange: () => chosen(Number(made.value)) },
    ...names.map((name, place) => el("option", { value: place }, name)),
  );
  return made;
}

function heading(data: SweepData): HTMLElement {
  const { total, done, failed, pending, won, lost } = data.counts;
  const unjudged = done - won - lost;
  const facts = [
    count(total, "trial"),
    `${won.toLocaleString("en")} succeeded`,
    failed > 0 && `${failed.toLocaleString("en")} failed`,
    pending > 0 && `${pending.toLocaleString("en")} not run`,
    unjudged > 0 && `${unjudged.toLocaleString("en")} not judged`,
    data.spent.calls > 0 ? count(data.spent.calls, "question") : "no model was asked",
    data.spent.tokens > 0 && count(data.spent.tokens, "token"),
    `${clock(data.spent.seconds)} of trials`,
  ].filter((fact) => fact !== false);
  return el(
    "header",
    {},
    el("div", {}, el("h1", {}, data.name), el("p", { class: "soft" }, facts.join(" · "))),
    themeButton(() => {}),
  );
}

function results(
  data: SweepData,
  grouping: Grouping,
  cost: Cost,
  pick: Parameters<typeof tasks>[2],
): HTMLElement[] {
  const several = data.domains.length > 1;
  const parts = [
    el("section", {}, el("h2", { class: "hidden-label" }, "Result"), verdicts(data, grouping, cost), pooled(data, grouping)),
  ];
  if (several) parts.push(el("section", {}, el("h2", {}, "Planners and worlds"), matrix(data, grouping, pick)));
  parts.push(
    el("section", {}, el("h2", {}, grouping.by.length > 1 ? "Groups" : "Planners"), ranking(data, grouping, cost)),
    el("section", {}, el("h2", {}, "Cost and success"), scatter(data, grouping, cost)),
    el("section", {}, el("h2", {}, "Tasks"), tasks(data, grouping, pick)),
  );
  return parts;
}

/** What a comparison holds together, and what its interval does not say. */
function pooled(data: SweepData, grouping: Grouping): HTMLElement {
  const together = grouping.pooled.map(([field, n]) => `${field} (${count(n, "value")})`);
  const said = [
    together.length > 0 && `Together are ${together.join(", ")}: choose above what to tell apart.`,
    data.domains.length > 1 && "Rates over several worlds compare planners only where all of them ran.",
    data.ungrouped > 0 &&
      `${count(data.ungrouped, "more setting varies", "more settings vary")}: \`llm-planning sweep report --by\` groups by any.`,
    `Brackets are ${100 * data.confidence}% intervals. “Settled” means that the paired difference of the two best ` +
      "excludes 0; they were picked by their results, so where many compete it is less sure than it says.",
  ].filter((sentence) => sentence !== false);
  return el("p", { class: "soft note" }, said.join(" "));
}

function paging(data: SweepData): HTMLElement | null {
  const { paged, traced } = data.trials;
  const pages = paged.filter(Boolean).length;
  const traces = traced.filter(Boolean).length;
  const said = [];
  if (data.unlisted > 0) {
    said.push(
      `The first ${count(paged.length, "trial")} are listed, ${data.unlisted.toLocaleString("en")} more are in the ` +
        "measures above; `llm-planning sweep export` writes all.",
    );
  }
  if (pages < traces) {
    said.push(
      `${pages.toLocaleString("en")} of ${count(traces, "trial")} have a page here, the first of every planner and task ` +
        "before the second. `--trials all` writes all; `llm-planning view traces/KEY.jsonl.gz` writes one.",
    );
  }
  return said.length === 0 ? null : el("p", { class: "soft note" }, said.join(" "));
}

function errors(data: SweepData): HTMLElement | null {
  if (data.errors.length === 0) return null;
  return el(
    "section",
    {},
    el("h2", {}, "Why trials failed"),
    el("ul", { class: "errors" }, ...data.errors.map(([text, n]) => el("li", {}, `${n} × `, el("code", {}, text)))),
    data.other_errors > 0 &&
      el("p", { class: "soft" }, `${count(data.other_errors, "other error")}: \`llm-planning sweep status\` lists all.`),
  );
}

function about(data: SweepData): HTMLElement {
  const methods = new Set<string>();
  for (const group of data.groupings[0].groups) {
    for (const one of [group[data.quantity], group.tokens]) if (one) methods.add(one.method);
  }
  const differences = data.groupings[0].leads.some((lead) => lead.difference !== null);
  if (differences) methods.add("Newcombe's hybrid score for pairs");
  return el(
    "section",
    {},
    el("h2", {}, "How it was made"),
    el("p", {}, `Intervals: ${[...methods].join("; ")}. Seconds include waiting for the other trials that ran beside.`),
    ...data.provenance.map((one) => {
      const rows = Object.entries(one).map(([name, of]) =>
        el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, written(of))),
      );
      return el("table", { class: "made" }, el("tbody", {}, ...rows));
    }),
  );
}

function written(of: unknown): string {
  if (Array.isArray(of)) return of.length === 0 ? "none" : of.map(written).join(", ");
  if (of !== null && typeof of === "object") {
    return Object.entries(of).map(([name, one]) => `${name} ${written(one)}`).join(", ");
  }
  return String(of);
}
