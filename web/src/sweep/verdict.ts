// The first thing seen: who leads in each domain, how sure that is, and what it cost.
import { el } from "../shared/dom";
import type { Cost, Group, Grouping, Lead, SweepData, Value } from "./data";
import { rate } from "./data";
import { costly, count, estimated, named, percent, points } from "./format";
import { whisker } from "./whisker";

/** A card for each domain. */
export function verdicts(data: SweepData, grouping: Grouping, cost: Cost): HTMLElement {
  const several = data.domains.length > 1;
  const cards = grouping.leads.map((lead) =>
    card(lead, several ? ofDomain(grouping, lead.domain) : grouping.groups, { data, cost, several }),
  );
  if (cards.length === 0) cards.push(nothing(data, grouping));
  return el("div", { class: "cards" }, ...cards);
}

/** The groups of one domain, with the values that groups have elsewhere. */
function ofDomain(grouping: Grouping, domain: string): Group[] {
  return grouping.domains
    .filter((group) => group.values[group.values.length - 1] === domain)
    .map((group) => ({ ...group, values: group.values.slice(0, -1) }));
}

interface Shown {
  data: SweepData;
  cost: Cost;
  several: boolean;
}

function card(lead: Lead, groups: Group[], { data, cost, several }: Shown): HTMLElement {
  const first = find(groups, lead.first);
  const second = lead.second === null ? undefined : find(groups, lead.second);
  const few = new Set(lead.few.map((values) => JSON.stringify(values)));
  const fit = groups.filter((group) => !few.has(JSON.stringify(group.values)));
  const tied = fit.filter((group) => group.success.value === first?.success.value);
  const open = groups.reduce((sum, group) => sum + group.pending, 0);
  const others = tied.length - 1;
  return el(
    "article",
    { class: "card" },
    several && el("p", { class: "soft" }, `In ${lead.domain}`),
    el(
      "h3",
      {},
      named(lead.first),
      el("span", { class: "soft" }, second === undefined ? " is alone" : others > 0 ? tie(tied, lead.first) : " leads"),
    ),
    first !== undefined && rated(first),
    lead.second !== null && el("div", { class: "sure" }, badge(lead), el("span", {}, ahead(lead))),
    first !== undefined && el("p", {}, priced(first, second, cost)),
    open > 0 && el("p", { class: "soft" }, `So far: ${count(open, "trial")} of this world not run.`),
    lead.few.length > 0 && el("p", { class: "soft" }, `Too few trials to lead: ${listed(lead.few)}.`),
    apart(groups, data),
  );
}

/** Those that are as good as the first, which is the cheapest of them. */
function tie(tied: Group[], first: Value[]): string {
  const names = tied.map((group) => named(group.values)).filter((name) => name !== named(first));
  if (names.length > 3) return ` and ${names.length} others tie`;
  const last = names.pop();
  return `${names.map((name) => `, ${name}`).join("")} and ${last} tie`;
}

function rated(group: Group): HTMLElement {
  return el(
    "div",
    {},
    el(
      "p",
      { class: "rate" },
      el("strong", {}, group.success.value === null ? "–" : percent(group.success.value)),
      el("span", { class: "soft" }, ` ${estimated(group.success, percent).split(" ").slice(1).join(" ")}`),
      el("span", { class: "soft" }, ` success in ${count(group.success.n, "trial")}`),
    ),
    whisker(group.success),
  );
}

function badge({ difference }: Lead): HTMLElement {
  const low = difference?.low ?? null;
  if (difference === null || low === null) {
    return el("span", { class: "verdict unknown" }, "not comparable");
  }
  return low > 0
    ? el("span", { class: "verdict good" }, "settled")
    : el("span", { class: "verdict unsettled" }, "not settled");
}

function ahead({ second, difference, reason }: Lead): string {
  const other = named(second ?? []);
  if (difference === null) return `beside ${other}: ${reason ?? "they cannot be paired"}`;
  if (difference.value === null) {
    return `beside ${other}: no two of their trials are alike in task, seed and shared settings`;
  }
  const bounds =
    difference.low === null || difference.high === null
      ? "no interval from one pair"
      : `[${points(difference.low)}, ${points(difference.high)}]`;
  const pairs = count(difference.n, "pair");
  return difference.value === 0
    ? `level with ${other}: 0 points ${bounds} over ${pairs}`
    : `${points(difference.value)} points on ${other} ${bounds} over ${pairs}`;
}

function priced(first: Group, second: Group | undefined, cost: Cost): string {
  const said = `Cost: ${costly(first[cost], cost)} per trial`;
  if (second === undefined || second[cost].value === null) return `${said}.`;
  return `${said}; ${named(second.values)} ${costly(second[cost], cost)}.`;
}

/** What the cards would hide: groups whose trials have not all come to a rate. */
function apart(groups: Group[], data: SweepData): HTMLElement | null {
  const unjudged = groups.filter((group) => rate(group, data.quantity)?.value == null);
  if (unjudged.length === 0) return null;
  const names = listed(unjudged.map((group) => group.values));
  return el("p", { class: "soft" }, `Without a rate: ${names}.`);
}

const NAMED = 5;

/** Some names, and how many more there are; the ranking below has them all. */
function listed(found: Value[][]): string {
  const names = found.slice(0, NAMED).map(named).join(", ");
  return found.length > NAMED ? `${names} and ${found.length - NAMED} more` : names;
}

function nothing(data: SweepData, grouping: Grouping): HTMLElement {
  const best = [...grouping.groups].sort((a, b) => (b.right?.value ?? -1) - (a.right?.value ?? -1))[0];
  if (data.quantity === "right" && best?.right !== undefined) {
    return el(
      "article",
      { class: "card" },
      el("h3", {}, named(best.values), el("span", { class: "soft" }, " is right most often")),
      el("p", { class: "rate" }, el("strong", {}, estimated(best.right, percent))),
      whisker(best.right),
    );
  }
  const why = data.counts.done === 0 ? "No trial has ended yet." : "No trial was judged: nobody won.";
  return el("article", { class: "card" }, el("p", {}, why));
}

function find(groups: Group[], values: Value[]): Group | undefined {
  const key = JSON.stringify(values);
  return groups.find((group) => JSON.stringify(group.values) === key);
}
