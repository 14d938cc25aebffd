// What differs between two texts, line by line, or item by item in a long line.
import { el } from "../shared/dom";

/** A state with what is new against its parent's marked, and what is gone below it. */
export function changed(before: string, after: string): HTMLElement {
  const old = parts(before);
  const now = parts(after);
  const were = new Set(old);
  const are = new Set(now);
  const gone = old.filter((part) => !are.has(part) && part.trim() !== "");
  const body = el("div", { class: "state" });
  for (const part of now) {
    body.append(before !== "" && !were.has(part) && part.trim() !== "" ? el("ins", {}, part) : part);
  }
  if (gone.length > 0 && before !== "") {
    body.append(el("div", { class: "gone" }, el("span", { class: "soft" }, "No longer: "), el("del", {}, gone.join(" "))));
  }
  return body;
}

/** Lines; long ones in pieces that end with a comma or a full stop. */
function parts(text: string): string[] {
  return text.split(/(?<=\n)/).flatMap((line) => (line.length > 60 ? line.split(/(?<=[,.;]\s)/) : [line]));
}
