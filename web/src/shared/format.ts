// Numbers in words that people read.

const WHOLE = new Intl.NumberFormat("en");

/** A whole number with separators. */
export const count = (value: number): string => WHOLE.format(value);

/** A number with about three digits that count. */
export function short(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "–" : value > 0 ? "∞" : "−∞";
  if (Math.abs(value) < 1e-12) return "0"; // what rounding left
  if (Math.abs(value) >= 1e6 || Math.abs(value) < 1e-3) {
    return value.toExponential(2).replace("-", "−");
  }
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 3;
  return String(Number(value.toFixed(digits))).replace("-", "−");
}

/** A duration. */
export function seconds(value: number): string {
  if (!(value >= 0)) return "–";
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 120) return `${value.toFixed(1)} s`;
  const minutes = Math.round(value / 60);
  return minutes < 120 ? `${minutes} min` : `${(value / 3600).toFixed(1)} h`;
}

/** "1 node", "2 nodes". */
export const counted = (value: number, word: string): string =>
  `${count(value)} ${word}${value === 1 ? "" : "s"}`;

/** A JSON value in one line. */
export function inline(value: unknown): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") return short(value);
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "string") return value;
  return JSON.stringify(value);
}
