// Cost against success: a point for each group, with both intervals.
import { el, svg } from "../shared/dom";
import type { Cost, Group, Grouping, Measured, SweepData } from "./data";
import { rate } from "./data";
import { estimated, named, number, percent } from "./format";

const MOST = 60;
const HEIGHT = 380;
const EDGE = { left: 58, right: 18, top: 14, bottom: 46 };
const FAR = 30;

interface Point {
  name: string;
  cost: Measured;
  rate: Measured;
}

/** The picture, drawn anew when its width changes. */
export function scatter(data: SweepData, grouping: Grouping, cost: Cost): HTMLElement {
  const points = grouping.groups.map((group) => point(data, group, cost)).filter((one) => one !== null);
  if (points.length === 0) return el("p", { class: "soft" }, "No group has a rate and a cost.");
  const shown = points.slice(0, MOST);
  const holder = el("div", { class: "scatter" });
  let width = 0;
  new ResizeObserver(() => {
    if (holder.clientWidth === width || holder.clientWidth === 0) return;
    width = holder.clientWidth;
    holder.replaceChildren(draw(shown, cost, width));
  }).observe(holder);
  if (shown.length === points.length) return holder;
  const said = `The first ${shown.length} of ${points.length} groups are drawn; the table has all.`;
  return el("div", {}, holder, el("p", { class: "soft" }, said));
}

function point(data: SweepData, group: Group, cost: Cost): Point | null {
  const measured = rate(group, data.quantity);
  if (measured === undefined || measured.value === null || group[cost].value === null) return null;
  return { name: named(group.values), cost: group[cost], rate: measured };
}

function draw(points: Point[], cost: Cost, width: number): SVGElement {
  const values = points.map((one) => one.cost.value ?? 0);
  const least = Math.min(...values);
  const most = Math.max(...values, 1e-9);
  const log = least > 0 && most / least > FAR;
  const low = log ? least / 1.6 : 0;
  const high = log ? most * 1.6 : most * 1.15;
  const inner = width - EDGE.left - EDGE.right;
  const part = (value: number) =>
    log ? Math.log(Math.max(value, low) / low) / Math.log(high / low) : (value - low) / (high - low);
  const x = (value: number) => EDGE.left + inner * Math.min(1, Math.max(0, part(value)));
  const y = (share: number) => EDGE.top + (HEIGHT - EDGE.top - EDGE.bottom) * (1 - share);
  const said = points.map(
    (one) => `${one.name}: ${estimated(one.rate, percent)}, ${estimated(one.cost, number)} ${cost}`,
  );
  const picture = svg("svg", { width, height: HEIGHT, role: "img", "aria-label": said.join("; ") });
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    picture.append(
      svg("line", { x1: EDGE.left, x2: width - EDGE.right, y1: y(share), y2: y(share), class: "grid" }),
      svg("text", { x: EDGE.left - 8, y: y(share) + 4, "text-anchor": "end" }, percent(share)),
    );
  }
  for (const tick of log ? decades(low, high) : steps(high, Math.max(2, Math.floor(inner / 110)))) {
    picture.append(
      svg("line", { x1: x(tick), x2: x(tick), y1: EDGE.top, y2: HEIGHT - EDGE.bottom, class: "grid" }),
      svg("text", { x: x(tick), y: HEIGHT - EDGE.bottom + 18, "text-anchor": "middle" }, number(tick)),
    );
  }
  const axis = `${cost} per trial${log ? ", logarithmic" : ""}`;
  picture.append(
    svg("text", { x: EDGE.left + inner / 2, y: HEIGHT - 8, "text-anchor": "middle" }, axis),
  );
  const bars = svg("g", { class: "bars" });
  const dots = svg("g", { class: "dots" });
  const marks = points.map((one) => ({ x: x(one.cost.value ?? 0), y: y(one.rate.value ?? 0) }));
  for (const [place, one] of points.entries()) {
    const { x: across, y: down } = marks[place];
    if (one.rate.low !== null && one.rate.high !== null) {
      bars.append(svg("line", { x1: across, x2: across, y1: y(one.rate.low), y2: y(one.rate.high) }));
    }
    if (one.cost.low !== null && one.cost.high !== null) {
      bars.append(svg("line", { x1: x(one.cost.low), x2: x(one.cost.high), y1: down, y2: down }));
    }
    dots.append(
      svg("circle", { cx: across, cy: down, r: 5 }, svg("title", {}, said[place])),
    );
  }
  picture.append(bars, dots, ...labels(points, marks, width));
  return picture;
}

interface Box {
  x: number;
  y: number;
  width: number;
}

/** Names beside their points: where one would cover another, it moves; it is left out of no picture. */
function labels(points: Point[], marks: { x: number; y: number }[], width: number): SVGElement[] {
  const placed: Box[] = marks.map((one) => ({ x: one.x - 6, y: one.y + 5, width: 12 }));
  return points.map((one, place) => {
    const long = 7 * one.name.length;
    const { x, y } = marks[place];
    const right = Math.min(x + 10, width - long - 4);
    const left = Math.max(x - 10 - long, 2);
    const tries = [0, -16, 16, -32, 32, -48, 48, -64, 64, -80, 80].flatMap((down) => [
      { x: right, y: y + 4 + down, width: long },
      { x: left, y: y + 4 + down, width: long },
    ]);
    const inside = tries.filter((box) => box.y > 10 && box.y < HEIGHT - EDGE.bottom - 2);
    const free = inside.find((box) => !placed.some((other) => overlap(box, other))) ?? inside[0];
    placed.push(free);
    return svg("text", { x: free.x, y: free.y, class: "name" }, one.name);
  });
}

function overlap(one: Box, other: Box): boolean {
  const apart = one.x + one.width < other.x || other.x + other.width < one.x;
  return !apart && Math.abs(one.y - other.y) < 14;
}

function steps(high: number, most: number): number[] {
  const rough = high / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough) ?? rough;
  return Array.from({ length: Math.floor(high / step) + 1 }, (_, place) => place * step);
}

function decades(low: number, high: number): number[] {
  const first = Math.floor(Math.log10(low));
  const last = Math.ceil(Math.log10(high));
  const within = last - first < 3 ? [1, 2, 5] : [1];
  return Array.from({ length: last - first + 1 }, (_, place) => 10 ** (first + place))
    .flatMap((power) => within.map((one) => one * power))
    .filter((tick) => tick >= low && tick <= high);
}
