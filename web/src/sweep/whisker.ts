// A rate and its interval, drawn on a line from 0 to 1.
import { svg } from "../shared/dom";
import type { Estimate } from "./data";
import { estimated, percent } from "./format";

/** The picture of a rate; its text says the same. */
export function whisker(estimate: Estimate | undefined): SVGElement {
  const at = (share: number) => `${2 + 96 * Math.min(1, Math.max(0, share))}%`;
  const picture = svg("svg", { class: "whisker", role: "img", width: "100%", height: 16 });
  picture.setAttribute("aria-label", estimated(estimate, percent));
  const line = (from: number, to: number, kind: string) =>
    svg("line", { x1: at(from), x2: at(to), y1: 8, y2: 8, class: kind });
  picture.append(line(0, 1, "axis"));
  for (const tick of [0, 0.5, 1]) {
    picture.append(svg("line", { x1: at(tick), x2: at(tick), y1: 5, y2: 11, class: "axis" }));
  }
  if (estimate === undefined || estimate.value === null) return picture;
  if (estimate.low !== null && estimate.high !== null) {
    picture.append(line(estimate.low, estimate.high, "interval"));
    for (const end of [estimate.low, estimate.high]) {
      picture.append(svg("line", { x1: at(end), x2: at(end), y1: 3, y2: 13, class: "interval" }));
    }
  }
  picture.append(svg("circle", { cx: at(estimate.value), cy: 8, r: 4.5, class: "point" }));
  return picture;
}
