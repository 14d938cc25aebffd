// What the page of a sweep is given; see viewer/sweep_data.py, which computes every interval.

export interface Estimate {
  value: number | null;
  low: number | null;
  high: number | null;
  n: number;
  method: string;
  reason: string | null;
}

export interface Measured extends Estimate {
  without: number;
}

export const COSTS = ["tokens", "calls", "seconds", "options"] as const;
export type Cost = (typeof COSTS)[number];
export type Quantity = "success" | "right";
export type Value = string | number | boolean | null | object;

export interface Group {
  values: Value[];
  done: number;
  failed: number;
  pending: number;
  success: Measured;
  right?: Measured;
  options: Measured;
  calls: Measured;
  tokens: Measured;
  seconds: Measured;
}

export interface Lead {
  domain: string;
  first: Value[];
  second: Value[] | null;
  difference: (Estimate & { alone: number }) | null;
  reason: string | null;
  few: Value[][];
}

export interface Grouping {
  by: string[];
  pooled: [string, number][];
  groups: Group[];
  tasks: Group[];
  domains: Group[];
  leads: Lead[];
}

export interface Coded {
  values: Value[];
  at: number[];
}

export interface Trials {
  fields: (Coded & { name: string })[];
  outcome: Coded;
  numbers: Record<string, (number | null)[]>;
  errors: Coded;
  keys: string[];
  paged: number[];
  traced: number[];
}

export interface Absence {
  kind: "unfit" | "excluded" | "unasked";
  reason: string;
}

export interface SweepData {
  name: string;
  confidence: number;
  counts: { total: number; done: number; failed: number; pending: number; won: number; lost: number };
  spent: Record<"calls" | "tokens" | "seconds", number>;
  quantity: Quantity;
  groupings: Grouping[];
  ungrouped: number;
  domains: string[];
  absent: Record<string, Record<string, Absence>>;
  trials: Trials;
  unlisted: number;
  errors: [string, number][];
  other_errors: number;
  provenance: Record<string, unknown>[];
}

/** The estimate that the page compares groups by. */
export function rate(group: Group, quantity: Quantity): Measured | undefined {
  return group[quantity];
}

/** Groups in the order of their rates; of equal ones the cheaper first, those without a rate last. */
export function ranked(groups: Group[], quantity: Quantity, cost: Cost): Group[] {
  const key = (group: Group) => rate(group, quantity)?.value ?? -1;
  return [...groups].sort(
    (one, other) => key(other) - key(one) || (one[cost].value ?? 0) - (other[cost].value ?? 0),
  );
}

/** The first kind of cost that most groups had. */
export function usualCost(groups: Group[]): Cost {
  const had = (cost: Cost) => groups.filter((group) => (group[cost].value ?? 0) > 0).length;
  const judged = groups.filter((group) => group.done > 0).length;
  return COSTS.find((cost) => 2 * had(cost) > judged) ?? "seconds";
}

/** The kinds of cost that any group had: without a model, nothing costs questions or tokens. */
export function paid(groups: Group[]): Cost[] {
  return COSTS.filter((cost) => groups.some((group) => (group[cost].value ?? 0) > 0));
}
