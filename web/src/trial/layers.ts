// Places the items of a graph in layers: what an item needs stands below it, and lines that pass a
// layer have a way of their own through it.

export interface Line {
  from: string;
  to: string;
}

export interface Box {
  x: number;
  y: number;
  width: number;
}

export interface Layered {
  width: number;
  height: number;
  boxes: Map<string, Box>;
  /** Each line as a path of SVG, from the item that needs to the one that is needed. */
  paths: string[];
  /** A place beside the beginning of each line. */
  marks: { x: number; y: number }[];
}

export const BOX = 24;
const ROW = 66;
const GAP = 16;
const EDGE = 10;
const WAY = 4;
const TURNS = 8;

/** A box, or the place where a line passes a layer. */
interface Unit {
  layer: number;
  width: number;
  near: Unit[];
  /** From 0 to 1, within its layer. */
  place: number;
  x: number;
}

/**
 * Places items and lines.
 *
 * Lines that `bind` are for a longest way; the others do not move an item. With `ways`, a line does
 * not pass behind boxes, at the price of a wider picture.
 */
export function layered<L extends Line>(names: string[], lines: L[], wide: (name: string) => number, binds: (line: L) => boolean, ways: boolean): Layered {
  const layers = longest(names, lines.filter(binds));
  const rows: Unit[][] = [];
  const add = (layer: number, width: number): Unit => {
    const unit = { layer, width, near: [], place: 0, x: 0 };
    (rows[layer] ??= []).push(unit);
    return unit;
  };
  const units = new Map(names.map((name) => [name, add(layers.get(name) ?? 0, wide(name))]));
  const chains = lines.map(({ from, to }) => {
    const [first, last] = [units.get(to) as Unit, units.get(from) as Unit];
    const chain = [first];
    for (let layer = first.layer - 1; ways && layer > last.layer; layer--) chain.push(add(layer, WAY));
    chain.push(last);
    for (let at = 1; at < chain.length; at++) {
      chain[at].near.push(chain[at - 1]);
      chain[at - 1].near.push(chain[at]);
    }
    return chain;
  });
  order(rows);
  const widths = rows.map((row) => row.reduce((sum, unit) => sum + unit.width + GAP, -GAP));
  const width = Math.max(...widths) + 2 * EDGE;
  const height = rows.length * ROW - (ROW - BOX) + 2 * EDGE;
  rows.forEach((row, at) => {
    let x = (width - widths[at]) / 2;
    for (const unit of row) {
      unit.x = x + unit.width / 2;
      x += unit.width + GAP;
    }
  });
  const top = (unit: Unit) => height - EDGE - BOX - unit.layer * ROW;
  const leaving = ports(chains, (chain) => [chain[0], chain[1]]);
  const entering = ports(chains, (chain) => [chain[chain.length - 1], chain[chain.length - 2]]);
  const points = chains.map((chain, line) =>
    chain.map((unit, at) => (at === 0 ? leaving[line] : at === chain.length - 1 ? entering[line] : unit.x)),
  );
  const paths = chains.map((chain, line) =>
    chain.slice(1).reduce((path, unit, at) => {
      const [x1, y1, x2, y2] = [points[line][at], top(chain[at]) + BOX, points[line][at + 1], top(unit)];
      const bend = Math.max(ROW - BOX, Math.abs(y2 - y1)) / 2;
      return `${path}${at === 0 ? "M" : "L"}${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`;
    }, ""),
  );
  const marks = chains.map((chain, line) => ({
    x: (points[line][0] + points[line][1]) / 2,
    y: (top(chain[0]) + BOX + top(chain[1])) / 2,
  }));
  const boxes = new Map([...units].map(([name, unit]) => [name, { x: unit.x - unit.width / 2, y: top(unit), width: unit.width }]));
  return { width, height, boxes, paths, marks };
}

/** Item -> its layer: the longest way to an item that needs nothing. A circle is cut. */
function longest(names: string[], lines: Line[]): Map<string, number> {
  const needs = new Map<string, string[]>(names.map((name) => [name, []]));
  for (const { from, to } of lines) needs.get(to)?.push(from);
  const layers = new Map<string, number>();
  const open = new Set<string>();
  const stack = names.toReversed();
  while (stack.length > 0) {
    const name = stack[stack.length - 1];
    const below = needs.get(name) ?? [];
    if (!layers.has(name) && !open.has(name)) {
      open.add(name);
      stack.push(...below.filter((one) => !layers.has(one) && !open.has(one)));
      continue;
    }
    stack.pop();
    open.delete(name);
    if (!layers.has(name)) layers.set(name, below.reduce((most, one) => Math.max(most, 1 + (layers.get(one) ?? -1)), 0));
  }
  return layers;
}

/** Orders each layer so that what belongs together is near each other. */
function order(rows: Unit[][]): void {
  const note = (row: Unit[]) =>
    row.forEach((unit, at) => {
      unit.place = (at + 0.5) / row.length;
    });
  rows.forEach(note);
  for (let turn = 0; turn < TURNS; turn++) {
    for (const row of turn % 2 === 0 ? rows : rows.toReversed()) {
      const middle = new Map(
        row.map((unit) => [unit, unit.near.length === 0 ? unit.place : unit.near.reduce((sum, one) => sum + one.place, 0) / unit.near.length]),
      );
      row.sort((a, b) => (middle.get(a) ?? 0) - (middle.get(b) ?? 0));
      note(row);
    }
  }
}

/** Where each line meets one of its boxes: side by side, in the order in which they come. */
function ports(chains: Unit[][], end: (chain: Unit[]) => [Unit, Unit]): number[] {
  const found: number[] = [];
  const groups = new Map<Unit, number[]>();
  chains.forEach((chain, line) => groups.set(end(chain)[0], [...(groups.get(end(chain)[0]) ?? []), line]));
  for (const [unit, group] of groups) {
    group
      .sort((a, b) => end(chains[a])[1].x - end(chains[b])[1].x)
      .forEach((line, at) => {
        found[line] = unit.x + unit.width * ((at + 1) / (group.length + 1) - 0.5);
      });
  }
  return found;
}
