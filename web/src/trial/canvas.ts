// Draws a placed tree on a canvas, as much of it as is in view, and hears mouse, touch and keys.
import { el } from "../shared/dom";
import { palette } from "./colours";
import { Children, columnOf, foldAllBut, place, ROW } from "./layout";
import type { Placed, Shape } from "./shape";

const FEW = 160;
const ROOM = 26;
const LABELS_FROM = 0.55;

export interface Heard {
  /** A node was selected by the reader. */
  select(node: number): void;
  /** A key that is not the canvas's own. */
  key(event: KeyboardEvent): void;
}

export class TreeCanvas {
  readonly element: HTMLElement;
  readonly canvas: HTMLCanvasElement;
  selected = -1;
  /** Nodes that are marked: the path of a simulation. */
  marked = new Set<number>();
  /** Nodes that a search found. */
  found = new Set<number>();
  private readonly said = el("p", { class: "hidden-label", "aria-live": "polite" });
  private readonly children: Children;
  private readonly column: number;
  private readonly pen: CanvasRenderingContext2D;
  private folded: Uint8Array;
  private placed: Placed;
  private scale = 1;
  private left = 0;
  private top = 0;
  private due = 0;
  /** How much larger the page's letters are than on a common screen. */
  private rem = 1;
  private width = 0;
  private height = 0;
  private untouched = true;
  private colours = palette();

  constructor(
    private readonly shape: Shape,
    private root: number,
    private readonly heard: Heard,
    label: string,
  ) {
    this.children = new Children(shape.parent);
    this.folded = foldAllBut(shape, this.children, root, FEW);
    this.column = columnOf(shape);
    this.placed = place(shape, this.children, root, this.folded, this.column);
    this.canvas = el("canvas", {
      tabindex: 0,
      role: "application",
      "aria-roledescription": "tree",
      "aria-label": `${label}. Arrow keys move, space folds, plus and minus zoom, zero fits.`,
    });
    this.pen = this.canvas.getContext("2d") as CanvasRenderingContext2D;
    this.element = el("div", { class: "canvas" }, this.canvas, this.said);
    this.listen();
    new ResizeObserver(() => this.resize()).observe(this.canvas);
  }

  /** Shows the tree below another root. */
  setRoot(root: number): void {
    if (root === this.root) return;
    this.root = root;
    this.folded = foldAllBut(this.shape, this.children, root, FEW);
    this.place();
    this.fit();
  }

  /** The theme has changed. */
  repaint(): void {
    this.colours = palette();
    this.draw();
  }

  /** Draws before the next frame. */
  draw(): void {
    if (this.due === 0) this.due = requestAnimationFrame(() => this.paint());
  }

  /** Unfolds everything, or shows again the few important nodes. */
  unfold(all: boolean): void {
    this.folded = all
      ? new Uint8Array(this.shape.size)
      : foldAllBut(this.shape, this.children, this.root, FEW);
    this.place();
    this.fit();
  }

  /** Makes a node visible by unfolding those above it. */
  reveal(node: number): void {
    let changed = false;
    for (let above = this.shape.parent[node]; above >= 0; above = this.shape.parent[above]) {
      changed ||= this.folded[above] === 1;
      this.folded[above] = 0;
    }
    if (changed || Number.isNaN(this.placed.x[node])) this.place();
  }

  /** Selects a node and brings it into view. */
  select(node: number): void {
    this.selected = node;
    if (node >= 0) {
      this.reveal(node);
      this.bringIn(node);
      this.said.textContent = `${this.shape.label(node)}, ${this.shape.detail(node)}`;
    }
    this.draw();
  }

  /** Shows the whole tree if its labels can then be read, else its root. */
  fit(): void {
    const { top, bottom, levels } = this.placed;
    const wide = levels.length * this.column + 60;
    const high = bottom - top + 2 * ROW;
    const scale = Math.min(1.1 * this.rem, (this.width - 2 * ROOM) / wide, this.height / high);
    this.scale = Math.max(scale, this.untouched ? LABELS_FROM * 1.1 * this.rem : 0.002);
    this.left = ROOM - this.placed.x[this.root] * this.scale;
    const middle = scale < this.scale ? this.placed.y[this.root] : (top + bottom) / 2;
    this.top = this.height / 2 - middle * this.scale;
    this.draw();
  }

  zoom(factor: number, x = this.width / 2, y = this.height / 2): void {
    this.untouched = false;
    const scale = Math.max(0.002, Math.min(4, this.scale * factor));
    this.left = x - ((x - this.left) * scale) / this.scale;
    this.top = y - ((y - this.top) * scale) / this.scale;
    this.scale = scale;
    this.draw();
  }

  private place(): void {
    this.placed = place(this.shape, this.children, this.root, this.folded, this.column);
    this.draw();
  }

  private fold(node: number): void {
    if (this.children.count(node) === 0) return;
    const y = this.placed.y[node];
    this.folded[node] ^= 1;
    this.place();
    this.top -= (this.placed.y[node] - y) * this.scale; // the node stays where the reader looks
    this.said.textContent = `${this.shape.label(node)} ${this.folded[node] ? "folded" : "unfolded"}`;
  }

  private bringIn(node: number): void {
    const x = this.placed.x[node] * this.scale + this.left;
    const y = this.placed.y[node] * this.scale + this.top;
    if (x < ROOM || x > this.width - 120) this.left += this.width * 0.4 - x;
    if (y < ROOM || y > this.height - ROOM) this.top += this.height / 2 - y;
  }

  private resize(): void {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (width === 0 || height === 0) return;
    const first = this.width === 0;
    this.width = width;
    this.rem = parseFloat(getComputedStyle(document.documentElement).fontSize) / 15;
    this.height = height;
    this.canvas.width = Math.round(width * devicePixelRatio);
    this.canvas.height = Math.round(height * devicePixelRatio);
    if (first || this.untouched) this.fit();
    if (this.selected >= 0) this.bringIn(this.selected);
    this.paint();
  }

  private paint(): void {
    cancelAnimationFrame(this.due);
    this.due = 0;
    const { pen, colours } = this;
    const ratio = devicePixelRatio;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = colours.ground;
    pen.fillRect(0, 0, this.width, this.height);
    const shown = this.inView();
    this.paintLines(shown);
    this.paintNodes(shown);
  }

  /** The nodes whose point or line is in view, at most one a pixel row of each depth. */
  private inView(): number[] {
    const { placed, shape } = this;
    const high = (this.height - this.top + ROW) / this.scale;
    const low = (-this.top - ROW) / this.scale;
    const shown: number[] = [];
    for (const level of placed.levels) {
      const x = placed.x[level[0]] * this.scale + this.left;
      if (x < -160 || x - this.column * this.scale > this.width) continue;
      const above = (node: number) => {
        const parent = shape.parent[node];
        return parent >= 0 && !Number.isNaN(placed.y[parent]) ? placed.y[parent] : placed.y[node];
      };
      const first = Math.min(
        from(level, low, (node) => placed.y[node]),
        from(level, low, above),
      );
      const end = Math.max(
        from(level, high, (node) => placed.y[node]),
        from(level, high, above),
      );
      let row = -Infinity;
      for (let at = first; at < end; at++) {
        const node = level[at];
        const y = Math.round(placed.y[node] * this.scale * 2);
        if (y === row || !shape.exists(node)) continue;
        row = y;
        shown.push(node);
      }
    }
    return shown;
  }

  private paintLines(shown: number[]): void {
    const { pen, placed, shape, colours } = this;
    const batches = new Map<string, number[]>();
    for (const node of shown) {
      const parent = shape.parent[node];
      if (node === this.root || parent < 0 || Number.isNaN(placed.x[parent])) continue;
      const marked = this.marked.has(node) && this.marked.has(parent);
      const width = this.scale < 0.12 ? 1 : Math.max(1, Math.round((0.8 + 8 * shape.weight(node)) * Math.min(1, this.scale + 0.3)));
      const colour = shape.colour(node);
      const key = `${typeof colour === "number" ? colours.scale[colour] : colours[colour]} ${width} ${marked}`;
      const batch = batches.get(key);
      if (batch === undefined) batches.set(key, [node]);
      else batch.push(node);
    }
    // The marked ones last, above the others.
    const ordered = [...batches].sort(([a], [b]) => Number(a.endsWith("true")) - Number(b.endsWith("true")));
    pen.lineCap = "round";
    for (const [key, nodes] of ordered) {
      const [colour, width, marked] = key.split(" ");
      pen.beginPath();
      for (const node of nodes) {
        const parent = shape.parent[node];
        const x1 = placed.x[parent] * this.scale + this.left;
        const y1 = placed.y[parent] * this.scale + this.top;
        const x2 = placed.x[node] * this.scale + this.left;
        const y2 = placed.y[node] * this.scale + this.top;
        pen.moveTo(x1, y1);
        if (this.scale < 0.12) pen.lineTo(x2, y2);
        else pen.bezierCurveTo((x1 + x2) / 2, y1, (x1 + x2) / 2, y2, x2, y2);
      }
      if (marked === "true") {
        pen.strokeStyle = colours.accent;
        pen.lineWidth = Number(width) + 5;
        pen.globalAlpha = 0.35;
        pen.stroke();
        pen.globalAlpha = 1;
      }
      pen.strokeStyle = colour;
      pen.lineWidth = Number(width);
      pen.stroke();
    }
  }

  private paintNodes(shown: number[]): void {
    const { pen, placed, shape, colours } = this;
    const labels = this.scale >= LABELS_FROM;
    const size = Math.max(1.2, Math.min(5 * this.rem, 5 * this.scale));
    if (this.scale < 0.12 && shown.length > 4000) return;
    const font = Math.max(11 * this.rem, Math.min(15 * this.rem, 13 * this.scale));
    pen.font = `${font}px ${getComputedStyle(document.body).fontFamily}`;
    pen.textBaseline = "middle";
    for (const node of shown) {
      const x = placed.x[node] * this.scale + this.left;
      const y = placed.y[node] * this.scale + this.top;
      const colour = shape.colour(node);
      const below = this.children.count(node);
      const hidden = this.folded[node] === 1 && below > 0;
      pen.fillStyle = typeof colour === "number" ? colours.scale[colour] : colours[colour];
      pen.beginPath();
      pen.arc(x, y, size, 0, 2 * Math.PI);
      pen.fill();
      if (hidden && size > 3) {
        pen.beginPath();
        pen.arc(x, y, size + 2.5, 0, 2 * Math.PI);
        pen.strokeStyle = colours.faint;
        pen.lineWidth = 1;
        pen.stroke();
      }
      if (node === this.selected || this.found.has(node)) {
        pen.beginPath();
        pen.arc(x, y, size + 4, 0, 2 * Math.PI);
        pen.strokeStyle = node === this.selected ? colours.accent : colours.ink;
        pen.lineWidth = node === this.selected ? 3 : 1.5;
        pen.stroke();
      }
      if (labels) this.paintLabel(node, x, y, size, hidden ? below : 0, font);
    }
  }

  private paintLabel(node: number, x: number, y: number, size: number, hidden: number, font: number): void {
    const { pen, colours } = this;
    const room = Math.floor(((this.column - 34) * this.scale) / (font * 0.56));
    let label = this.shape.label(node).replace(/\s+/g, " ");
    if (label.length > room) label = `${label.slice(0, Math.max(3, room - 1))}…`;
    if (hidden > 0) label += ` +${hidden}`;
    // Above the line that goes on to the right; beside the point where none does.
    const above = this.children.count(node) > 0 && this.folded[node] === 0;
    const at = x + size + (above ? 3 : 6);
    if (above) y -= font * 0.95;
    // A rim in the colour of the ground keeps the letters clear of lines.
    pen.strokeStyle = colours.ground;
    pen.lineWidth = 4;
    pen.lineJoin = "round";
    pen.strokeText(label, at, y);
    pen.fillStyle = node === this.selected ? colours.accent : colours.ink;
    pen.fillText(label, at, y);
  }

  private at(x: number, y: number): number {
    let best = -1;
    let nearest = 20 ** 2;
    for (const node of this.inView()) {
      const dx = x - (this.placed.x[node] * this.scale + this.left);
      const dy = y - (this.placed.y[node] * this.scale + this.top);
      // Labels are right of their points and belong to them.
      const label = this.scale >= LABELS_FROM && dx > 0 && dx < (this.column - 30) * this.scale;
      const far = (label ? 0 : dx * dx) + dy * dy * (label ? 3 : 1) + (label ? 1 : 0);
      if (far < nearest) {
        nearest = far;
        best = node;
      }
    }
    return best;
  }

  private listen(): void {
    const { canvas } = this;
    const fingers = new Map<number, { x: number; y: number }>();
    let moved = 0;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
      if (fingers.size === 1) moved = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = fingers.get(event.pointerId);
      if (before === undefined) {
        canvas.style.cursor = this.at(event.offsetX, event.offsetY) >= 0 ? "pointer" : "grab";
        return;
      }
      const now = { x: event.offsetX, y: event.offsetY };
      moved += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
      const [other] = [...fingers].filter(([id]) => id !== event.pointerId).map(([, point]) => point);
      if (other !== undefined) {
        const span = (a: { x: number; y: number }) => Math.hypot(a.x - other.x, a.y - other.y);
        this.zoom(span(now) / Math.max(1, span(before)), (now.x + other.x) / 2, (now.y + other.y) / 2);
      } else if (moved > 4) {
        this.untouched = false;
        canvas.style.cursor = "grabbing";
        this.left += now.x - before.x;
        this.top += now.y - before.y;
        this.draw();
      }
      fingers.set(event.pointerId, now);
    });
    const lift = (event: PointerEvent) => {
      if (fingers.delete(event.pointerId) && moved <= 4 && event.type === "pointerup") {
        const node = this.at(event.offsetX, event.offsetY);
        if (node >= 0) this.choose(node);
      }
    };
    canvas.addEventListener("pointerup", lift);
    canvas.addEventListener("pointercancel", lift);
    canvas.addEventListener("dblclick", (event) => {
      const node = this.at(event.offsetX, event.offsetY);
      if (node >= 0) this.fold(node);
    });
    canvas.addEventListener(
      "wheel",
      (event) => {
        // Without a key the page scrolls, as it does everywhere else on it.
        if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return;
        event.preventDefault();
        this.zoom(Math.exp(-event.deltaY * 0.002), event.offsetX, event.offsetY);
      },
      { passive: false },
    );
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  private choose(node: number): void {
    this.select(node);
    this.heard.select(node);
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const node = this.selected >= 0 ? this.selected : this.root;
    const below = Array.from(this.children.of(node)).filter((child) => this.shape.exists(child));
    const parent = this.shape.parent[node];
    const own: Record<string, () => void> = {
      ArrowLeft: () => parent >= 0 && node !== this.root && this.choose(parent),
      ArrowRight: () => {
        if (this.folded[node]) this.fold(node);
        if (below.length > 0) {
          this.choose(below.reduce((a, b) => (this.shape.importance(b) > this.shape.importance(a) ? b : a)));
        }
      },
      ArrowUp: () => this.beside(node, -1),
      ArrowDown: () => this.beside(node, 1),
      Home: () => this.choose(this.root),
      " ": () => this.fold(node),
      Enter: () => this.choose(node),
      "+": () => this.zoom(1.25),
      "=": () => this.zoom(1.25),
      "-": () => this.zoom(0.8),
      "0": () => this.fit(),
    };
    if (event.key in own) {
      event.preventDefault();
      own[event.key]();
    } else this.heard.key(event);
  }

  /** Selects the node above or below at the same depth. */
  private beside(node: number, way: number): void {
    const level = this.placed.levels[this.placed.depth[node]] ?? [];
    for (let at = level.indexOf(node) + way; at >= 0 && at < level.length; at += way) {
      if (this.shape.exists(level[at])) {
        this.choose(level[at]);
        return;
      }
    }
  }
}

/** The first place in a level, sorted by `value`, that is not below a bound. */
function from(level: Uint32Array, bound: number, value: (node: number) => number): number {
  let low = 0;
  let high = level.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (value(level[middle]) < bound) low = middle + 1;
    else high = middle;
  }
  return low;
}
