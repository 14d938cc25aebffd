// The groups, a line each: rate with interval, costs with intervals, and what is missing.
import { el, fill } from "../shared/dom";
import type { Cost, Group, Grouping, Measured, SweepData } from "./data";
import { paid, ranked, rate } from "./data";
import { count, interval, NOTHING, number, percent, short, value } from "./format";
import { whisker } from "./whisker";

const FIRST = 40;

/** A table of all groups, the best first. */
export function ranking(data: SweepData, grouping: Grouping, cost: Cost): HTMLElement {
  const groups = ranked(grouping.groups, data.quantity, cost);
  const holder = el("div");
  const draw = (most: number) =>
    fill(
      holder,
      scrolled("Groups", table(data, grouping, groups.slice(0, most))),
      groups.length > most &&
        el(
          "p",
          {},
          `The first ${most} of ${count(groups.length, "group")}. `,
          el("button", { type: "button", onclick: () => draw(groups.length) }, "Show all"),
        ),
    );
  draw(FIRST);
  return holder;
}

/** A part that scrolls sideways where the window is narrow, by the keyboard too. */
export function scrolled(label: string, ...children: HTMLElement[]): HTMLElement {
  return el("div", { class: "scrolled", tabindex: 0, role: "region", "aria-label": label }, ...children);
}

function table(data: SweepData, grouping: Grouping, groups: Group[]): HTMLElement {
  return el(
    "table",
    { class: "ranking" },
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        ...grouping.by.map((field) => el("th", { scope: "col" }, field)),
        el("th", { scope: "col", colspan: 2 }, data.quantity === "right" ? "right answers" : "success"),
        ...paid(grouping.groups).map((cost) => el("th", { scope: "col", class: "number" }, cost)),
        el("th", { scope: "col", class: "number" }, "trials"),
      ),
    ),
    el("tbody", {}, ...groups.map((group) => row(data, grouping, group))),
  );
}

function row(data: SweepData, grouping: Grouping, group: Group): HTMLElement {
  const measured = rate(group, data.quantity);
  const [name, ...others] = group.values;
  return el(
    "tr",
    {},
    el("th", { scope: "row", class: "name", title: value(name) }, short(name)),
    ...others.map((one) => el("td", { title: value(one) }, short(one))),
    el("td", { class: "picture" }, whisker(measured)),
    el("td", {}, figure(measured, percent)),
    ...paid(grouping.groups).map((cost) => el("td", { class: "number" }, figure(group[cost], number))),
    el("td", { class: "number" }, missing(group)),
  );
}

function figure(measured: Measured | undefined, written: (value: number) => string): HTMLElement {
  if (measured === undefined || measured.value === null) {
    return el("span", { class: "soft" }, measured?.without ? "not judged" : NOTHING);
  }
  const bounds = interval(measured, written) || measured.reason || "";
  return el(
    "span",
    {},
    written(measured.value),
    el("span", { class: "bounds" }, ` ${bounds}`),
    measured.without > 0 && el("span", { class: "bounds" }, ` (${measured.without} without)`),
  );
}

function missing({ done, failed, pending }: Group): string {
  const lost = [failed && `${failed} failed`, pending && `${pending} not run`].filter(Boolean);
  return lost.length > 0 ? `${done} done, ${lost.join(", ")}` : String(done);
}

