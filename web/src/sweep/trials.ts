// Every trial of the sweep: filters, order, pages of rows, and the way to a trial's own page.
import { el, fill } from "../shared/dom";
import type { Coded, SweepData, Trials, Value } from "./data";
import { count, number, short, value } from "./format";
import { scrolled } from "./ranking";

const ROWS = 50;
const ANY = "";

interface State {
  filters: Map<string, string>;
  text: string;
  by: string;
  down: boolean;
  page: number;
}

interface Column {
  name: string;
  numeric: boolean;
  cell: (row: number) => HTMLElement | string;
  order: (one: number, other: number) => number;
}

/** The table, and a function that shows only the trials with some values. */
export function trialTable(data: SweepData): { element: HTMLElement; pick: (fields: Record<string, Value>) => void } {
  const trials = data.trials;
  const filtered: [string, Coded][] = [
    ...trials.fields
      .filter((field) => field.name !== "seed" && field.values.length > 1)
      .map((field) => [field.name, field] as [string, Coded]),
    ["outcome", trials.outcome],
  ];
  const columns = columnsOf(trials);
  const state = initial(filtered);
  const texts = searchable(trials);
  const body = el("div");
  const selects = new Map(filtered.map(([name, coded]) => [name, choice(name, coded)]));
  const search = el("input", {
    type: "search",
    id: "search",
    placeholder: "error, task, setting …",
    oninput: () => change({ text: search.value, page: 0 }),
  });
  const clear = el("button", { type: "button", onclick: () => reset() }, "Clear");

  function choice(name: string, coded: Coded): HTMLSelectElement {
    const sorted = coded.values.map((one, place) => ({ one: value(one), place }));
    sorted.sort((a, b) => a.one.localeCompare(b.one, "en", { numeric: true }));
    const select = el(
      "select",
      {
        id: `filter-${name}`,
        onchange: () => {
          state.filters.set(name, select.value);
          change({ page: 0 });
        },
      },
      el("option", { value: ANY }, "any"),
      ...sorted.map(({ one, place }) => el("option", { value: one }, short(coded.values[place]))),
    );
    return select;
  }

  function change(changed: Partial<State>): void {
    Object.assign(state, changed);
    remember(state);
    draw();
  }

  function reset(): void {
    state.filters.clear();
    change({ text: "", page: 0 });
  }

  function draw(): void {
    search.value = state.text;
    for (const [name, select] of selects) select.value = state.filters.get(name) ?? ANY;
    const rows = ordered(matching(trials, filtered, texts, state), columns, state);
    const pages = Math.max(1, Math.ceil(rows.length / ROWS));
    state.page = Math.min(state.page, pages - 1);
    const first = state.page * ROWS;
    const shown = rows.slice(first, first + ROWS);
    const total = count(trials.keys.length, "trial");
    const said =
      rows.length === 0
        ? `No trial of ${total} fits.`
        : `${(first + 1).toLocaleString("en")} to ${(first + shown.length).toLocaleString("en")} of ${count(rows.length, "trial")}` +
          (rows.length < trials.keys.length ? `, chosen from ${trials.keys.length.toLocaleString("en")}` : "");
    const turn = (by: number, name: string, on: boolean) =>
      el(
        "button",
        {
          type: "button",
          disabled: !on,
          onclick: () => {
            change({ page: state.page + by });
            body.querySelector<HTMLElement>(".scrolled")?.focus();
          },
        },
        name,
      );
    fill(
      body,
      el(
        "div",
        { class: "turning" },
        el("p", { role: "status" }, said),
        turn(-1, "Earlier", state.page > 0),
        turn(1, "Later", state.page < pages - 1),
      ),
      rows.length > 0 && scrolled("Trials", table(trials, columns, shown, state, sort)),
    );
  }

  function sort(name: string): void {
    change({ by: name, down: state.by === name ? !state.down : false, page: 0 });
    body.querySelector<HTMLElement>("th[aria-sort] button")?.focus();
  }

  const element = el(
    "div",
    {},
    el(
      "div",
      { class: "filters" },
      labelled("search", "contains", search),
      ...[...selects].map(([name, select]) => labelled(`filter-${name}`, name, select)),
      clear,
    ),
    body,
  );
  draw();
  return {
    element,
    pick: (fields) => {
      state.filters.clear();
      for (const [field, chosen] of Object.entries(fields)) {
        if (selects.has(field)) state.filters.set(field, value(chosen));
      }
      change({ text: "", page: 0 });
    },
  };
}

function labelled(id: string, name: string, input: HTMLElement): HTMLElement {
  return el("div", {}, el("label", { for: id }, name), input);
}

function matching(trials: Trials, filtered: [string, Coded][], texts: string[][], state: State): number[] {
  const active = filtered
    .map(([name, coded]) => ({ coded, wanted: state.filters.get(name) ?? ANY }))
    .filter(({ wanted }) => wanted !== ANY)
    .map(({ coded, wanted }) => ({
      at: coded.at,
      fit: coded.values.map((one) => value(one) === wanted),
    }));
  const sought = state.text.trim().toLowerCase();
  const coded = [...trials.fields, trials.outcome, trials.errors];
  const hit = texts.map((some) => some.map((one) => one.includes(sought)));
  const rows = [];
  for (let row = 0; row < trials.keys.length; row++) {
    if (!active.every(({ at, fit }) => fit[at[row]])) continue;
    const found =
      sought === "" ||
      trials.keys[row].startsWith(sought) ||
      coded.some((column, place) => hit[place][column.at[row]]);
    if (found) rows.push(row);
  }
  return rows;
}

function searchable(trials: Trials): string[][] {
  return [...trials.fields, trials.outcome, trials.errors].map((column) =>
    column.values.map((one) => (one === null ? "" : value(one).toLowerCase())),
  );
}

function ordered(rows: number[], columns: Column[], state: State): number[] {
  const column = columns.find((one) => one.name === state.by);
  if (column === undefined) return rows;
  const sign = state.down ? -1 : 1;
  return rows.sort((one, other) => sign * column.order(one, other) || one - other);
}

function columnsOf(trials: Trials): Column[] {
  const coded = (name: string, column: Coded, cell?: (row: number) => HTMLElement | string): Column => {
    const rank = ranks(column.values);
    const numeric = column.values.every((one) => typeof one === "number");
    return {
      name,
      numeric,
      cell: cell ?? ((row) => short(column.values[column.at[row]])),
      order: (one, other) => rank[column.at[one]] - rank[column.at[other]],
    };
  };
  const measured = (name: string, values: (number | null)[]): Column => ({
    name,
    numeric: true,
    cell: (row) => (values[row] === null ? "–" : number(values[row])),
    // Those without a number come last.
    order: (one, other) => (values[one] ?? Infinity) - (values[other] ?? Infinity) || 0,
  });
  const several = (values: (number | null)[]) => values.some((one) => one !== null && one > 1);
  return [
    ...trials.fields.map((field) => coded(field.name, field)),
    coded("outcome", trials.outcome, (row) => outcome(trials, row)),
    ...Object.entries(trials.numbers)
      .filter(([name, values]) => name !== "attempts" || several(values))
      .map(([name, values]) => measured(name, values)),
  ];
}

function ranks(values: Value[]): number[] {
  const order = values.map((_, place) => place);
  order.sort((a, b) => value(values[a]).localeCompare(value(values[b]), "en", { numeric: true }));
  const found: number[] = [];
  order.forEach((place, rank) => (found[place] = rank));
  return found;
}

const LOOKS: Record<string, string> = { success: "good", "no success": "bad", failed: "bad" };

function outcome(trials: Trials, row: number): HTMLElement {
  const said = value(trials.outcome.values[trials.outcome.at[row]]);
  const error = trials.errors.values[trials.errors.at[row]];
  return el(
    "span",
    {},
    el("span", { class: `verdict ${LOOKS[said] ?? "unknown"}` }, said),
    error !== null && el("span", { class: "error", title: value(error) }, ` ${value(error)}`),
  );
}

function table(
  trials: Trials,
  columns: Column[],
  rows: number[],
  state: State,
  sort: (name: string) => void,
): HTMLElement {
  const head = columns.map((column) => {
    const here = state.by === column.name;
    const arrow = here ? (state.down ? " ↓" : " ↑") : "";
    return el(
      "th",
      {
        scope: "col",
        class: column.numeric ? "number" : null,
        "aria-sort": here ? (state.down ? "descending" : "ascending") : null,
      },
      el("button", { type: "button", class: "heading", onclick: () => sort(column.name) }, column.name + arrow),
    );
  });
  return el(
    "table",
    { class: "trials" },
    el("thead", {}, el("tr", {}, ...head, el("th", { scope: "col" }, "page"))),
    el(
      "tbody",
      {},
      ...rows.map((row) =>
        el(
          "tr",
          {},
          ...columns.map((column) => el("td", { class: column.numeric ? "number" : null }, column.cell(row))),
          el("td", {}, page(trials, row)),
        ),
      ),
    ),
  );
}

/** The way to a trial's own page, or the beginning of its key, which names its trace. */
function page(trials: Trials, row: number): HTMLElement | string {
  const key = trials.keys[row];
  if (trials.paged[row] === 1) {
    return el("a", { href: `trials/${key}.html`, "aria-label": `open the page of trial ${key.slice(0, 8)}` }, "open");
  }
  return trials.traced[row] === 1 ? el("span", { class: "soft mono", title: key }, key.slice(0, 8)) : "–";
}

// The filters are part of the address, so that a link or a reload shows the same rows.
function initial(filtered: [string, Coded][]): State {
  const state: State = { filters: new Map(), text: "", by: "", down: false, page: 0 };
  const said = new URLSearchParams(location.hash.slice(1));
  for (const [name, coded] of filtered) {
    const wanted = said.get(name);
    if (wanted !== null && coded.values.some((one) => value(one) === wanted)) state.filters.set(name, wanted);
  }
  state.text = said.get("contains") ?? "";
  state.by = said.get("by") ?? "";
  state.down = said.has("down");
  return state;
}

function remember(state: State): void {
  const said = new URLSearchParams();
  for (const [name, wanted] of state.filters) if (wanted !== ANY) said.set(name, wanted);
  if (state.text !== "") said.set("contains", state.text);
  if (state.by !== "") said.set("by", state.by);
  if (state.down) said.set("down", "");
  try {
    history.replaceState(null, "", `#${said.toString()}`);
  } catch {
    // Some browsers refuse it to pages from disk; then the address stays as it is.
  }
}
