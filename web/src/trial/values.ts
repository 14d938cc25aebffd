// Any JSON value, to be read by people: objects as rows, lists as items, the rest as text.
import { el } from "../shared/dom";
import { inline } from "../shared/format";

/** An element that shows a value; what is deep is folded. */
export function value(given: unknown, depth = 0): HTMLElement {
  if (Array.isArray(given)) {
    if (given.length === 0) return el("span", { class: "soft" }, "none");
    if (given.every((item) => item === null || typeof item !== "object")) {
      return el("span", {}, given.map(inline).join(", "));
    }
    return folded(depth, `${given.length} items`, () =>
      el("ol", { class: "values" }, ...given.map((item) => el("li", {}, value(item, depth + 1)))),
    );
  }
  if (given !== null && typeof given === "object") {
    const entries = Object.entries(given);
    if (entries.length === 0) return el("span", { class: "soft" }, "none");
    return folded(depth, entries.map(([key]) => key).join(", "), () => rows(entries, depth));
  }
  return el("span", { class: typeof given === "number" ? "figure" : "words" }, inline(given));
}

/** Names with their values, as a list of definitions. */
export function rows(entries: [string, unknown][], depth = 0): HTMLElement {
  return el(
    "dl",
    { class: "values" },
    ...entries.flatMap(([key, item]) => [
      el("dt", {}, key.replaceAll("_", " ")),
      el("dd", {}, value(item, depth + 1)),
    ]),
  );
}

function folded(depth: number, words: string, inside: () => HTMLElement): HTMLElement {
  if (depth < 2) return inside();
  const made = el("details", {}, el("summary", {}, words.length > 80 ? `${words.slice(0, 80)}…` : words));
  made.addEventListener("toggle", () => {
    if (made.open && made.childElementCount === 1) made.append(inside());
  });
  return made;
}
