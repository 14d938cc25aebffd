// Rates as a map: groups down, domains or tasks across. An empty cell says why it is empty.
import { el } from "../shared/dom";
import type { Absence, Group, Grouping, SweepData, Value } from "./data";
import { rate } from "./data";
import { count, interval, named, percent, short, value } from "./format";
import { scrolled } from "./ranking";

const SAID: Record<Absence["kind"], string> = {
  unfit: "cannot plan here",
  excluded: "excluded",
  unasked: "not asked for",
};

export type Chosen = (fields: Record<string, Value>) => void;

/** Groups and domains. */
export function matrix(data: SweepData, grouping: Grouping, chosen: Chosen): HTMLElement {
  const columns = data.domains.map((domain) => ({ key: [domain] as Value[], above: "", name: domain }));
  const map = heat(data, grouping, grouping.domains, columns, ["domain"], chosen);
  return el("div", {}, map, reasons(data));
}

/** Groups and tasks. */
export function tasks(data: SweepData, grouping: Grouping, chosen: Chosen): HTMLElement {
  const several = data.domains.length > 1;
  const keys = new Map<string, Value[]>();
  for (const group of grouping.tasks) {
    const key = group.values.slice(-2);
    keys.set(JSON.stringify(key), key);
  }
  const columns = [...keys.values()]
    .sort((one, other) => value(one[0]).localeCompare(value(other[0])))
    .map((key) => ({ key, above: several ? value(key[0]) : "", name: value(key[1]) }));
  return heat(data, grouping, grouping.tasks, columns, ["domain", "task"], chosen);
}

interface Column {
  key: Value[];
  above: string;
  name: string;
}

function heat(
  data: SweepData,
  grouping: Grouping,
  cells: Group[],
  columns: Column[],
  across: string[],
  chosen: Chosen,
): HTMLElement {
  const found = new Map(cells.map((cell) => [JSON.stringify(cell.values), cell]));
  const body = grouping.groups.map((group) =>
    el(
      "tr",
      {},
      el("th", { scope: "row", title: group.values.map(value).join(", ") }, named(group.values)),
      ...columns.map((column) => {
        const cell = found.get(JSON.stringify([...group.values, ...column.key]));
        const fields = [...grouping.by, ...across];
        const values = [...group.values, ...column.key];
        const pick = () =>
          chosen(Object.fromEntries(fields.map((field, place) => [field, values[place]])));
        const what = `${named(group.values)} in ${column.key.map(short).join(", ")}`;
        const absent = data.absent[value(group.values[0])]?.[value(column.key[0])];
        return cell === undefined ? empty(absent) : full(data, cell, what, pick);
      }),
    ),
  );
  const heads = columns.map((column) =>
    el(
      "th",
      { scope: "col" },
      column.above !== "" && el("span", { class: "above" }, `${column.above} `),
      column.name,
    ),
  );
  return scrolled(
    "Map of rates",
    el(
      "table",
      { class: "heat" },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, grouping.by.join(" · ")), ...heads)),
      el("tbody", {}, ...body),
    ),
  );
}

function full(data: SweepData, cell: Group, what: string, pick: () => void): HTMLElement {
  const measured = rate(cell, data.quantity);
  const missing = [cell.failed && `${cell.failed} failed`, cell.pending && `${cell.pending} not run`]
    .filter(Boolean)
    .join(", ");
  const share = measured?.value ?? null;
  const holder = el("td", { class: share === null ? "blank" : "full" });
  if (share !== null) {
    holder.style.setProperty("--share", `${Math.round(100 * share)}%`);
  }
  const ran = count(measured?.n ?? 0, "trial");
  holder.append(
    el(
      "button",
      { type: "button", onclick: pick, title: `${what}: show its trials` },
      el("strong", {}, share === null ? (cell.done > 0 ? "not judged" : "no result") : percent(share)),
      el(
        "span",
        {},
        measured === undefined || share === null ? "" : interval(measured, percent) || (measured.reason ?? ""),
      ),
      el("span", {}, missing === "" ? ran : `${ran}, ${missing}`),
    ),
  );
  return holder;
}

function empty(absent: Absence | undefined): HTMLElement {
  if (absent === undefined) return el("td", { class: "blank" }, "no trials");
  return el("td", { class: "blank", title: absent.reason }, SAID[absent.kind]);
}

function reasons(data: SweepData): HTMLElement | null {
  const said = Object.values(data.absent).flatMap((domains) => Object.values(domains));
  if (said.length === 0) return null;
  return el(
    "details",
    {},
    el("summary", {}, `Why ${count(said.length, "cell is", "cells are")} empty`),
    el("ul", {}, ...said.map((one) => el("li", {}, one.reason))),
  );
}
