// How numbers and values are written: three significant digits, as in reports.
import type { Cost, Estimate, Value } from "./data";

export const NOTHING = "–";

/** A number with three significant digits, or with all digits before the point. */
export function number(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-5) return value.toPrecision(3);
  if (size >= 100) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(3)));
}

/** A share as a percentage. */
export function percent(share: number): string {
  return `${number(100 * share)}%`;
}

/** Percentage points with their sign. */
export function points(share: number): string {
  const value = number(100 * share);
  return share > 0 ? `+${value}` : value.replace("-", "−");
}

type Written = (value: number) => string;

/** An estimate's interval; the empty text if it has none. */
export function interval(estimate: Estimate, written: Written): string {
  if (estimate.low === null || estimate.high === null) return "";
  return `[${written(estimate.low)}, ${written(estimate.high)}]`;
}

/** An estimate with its interval. */
export function estimated(estimate: Estimate | undefined, written: Written): string {
  if (estimate === undefined || estimate.value === null) return NOTHING;
  return `${written(estimate.value)} ${interval(estimate, written)}`.trim();
}

/** A cost with its unit; times below a second in milliseconds. */
export function costly(estimate: Estimate, of: Cost): string {
  if (of !== "seconds" || estimate.value === null) return `${estimated(estimate, number)} ${of}`;
  const [unit, scale] = estimate.value < 1 ? ["ms", 1000] : ["s", 1];
  const bounds = interval(estimate, (one) => number(scale * one));
  return `${number(scale * estimate.value)} ${unit} ${bounds}`.trim();
}

/** A setting's or a name's value. */
export function value(of: Value): string {
  if (of === null || of === undefined) return NOTHING;
  return typeof of === "object" ? JSON.stringify(of) : String(of);
}

const LONGEST = 60;

/** A value short enough for a heading: of a path, its file. */
export function short(of: Value): string {
  const text = value(of);
  const file = /([^/]+)\.(?:ya?ml|json)$/.exec(text);
  const name = file === null ? text : file[1];
  return name.length > LONGEST ? `${name.slice(0, LONGEST)}…` : name;
}

/** The values of a group, as its name. */
export function named(values: Value[]): string {
  return values.map(short).join(" · ");
}

/** A count with its noun. */
export function count(n: number, one: string, many = `${one}s`): string {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

/** A duration for people: 42 s, 3:05 min, 7:12 h. */
export function clock(seconds: number): string {
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const two = (n: number) => String(n).padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)}:${two(whole % 60)} min`;
  const minutes = Math.round(seconds / 60);
  return `${Math.floor(minutes / 60)}:${two(minutes % 60)} h`;
}
