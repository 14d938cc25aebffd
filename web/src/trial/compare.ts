// Where two traces first differ, and the way there.
import { el } from "../shared/dom";
import { inline } from "../shared/format";

export interface Difference {
  moments: [number, number];
  kinds: [string | null, string | null];
  field: string | null;
  values: [unknown, unknown];
}

/** What the first difference is, with a button that shows its moment on both sides. */
export function difference(found: Difference | null, show: () => void): HTMLElement {
  if (found === null) return el("section", { class: "card first-difference" }, el("h2", {}, "No difference"), el("p", {}, "Apart from times and loads, both traces say the same."));
  const side = (at: 0 | 1) =>
    el("td", {}, found.kinds[at] === null ? "has ended" : found.field === null ? inline(found.kinds[at]) : cut(inline(found.values[at])));
  return el(
    "section",
    { class: "card first-difference" },
    el("h2", {}, "First difference"),
    el("p", {}, found.field === null ? "Something else happens:" : `In “${inline(found.field)}” of the next line “${inline(found.kinds[0])}”:`),
    el("table", {}, el("tbody", {}, el("tr", {}, el("th", {}, "A"), side(0)), el("tr", {}, el("th", {}, "B"), side(1)))),
    el("button", { type: "button", onclick: show }, "Show it in both"),
  );
}

const cut = (text: string): string => (text.length > 400 ? `${text.slice(0, 400)}…` : text);
