// Everything shown is made here, as elements and texts. No text of a trace is ever read as HTML.

export type Child = Node | string | number | null | undefined | false;

type Listener = (event: never) => void;
type Value = string | number | boolean | null | undefined | Listener;

/** An element. `on…` are listeners, `class` and others attributes; false and null are left out. */
export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, Value> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") {
      made.addEventListener(name.slice(2), value as unknown as EventListener);
    } else made.setAttribute(name, value === true ? "" : String(value));
  }
  add(made, ...children);
  return made;
}

const SVG = "http://www.w3.org/2000/svg";

/** An element of SVG. */
export function svg(
  tag: string,
  attributes: Record<string, string | number> = {},
  ...children: Child[]
): SVGElement {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  add(made, ...children);
  return made;
}

/** Appends children; what is null, undefined or false is left out. */
export function add(parent: Element, ...children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : String(child));
  }
}

/** Puts other children in the place of an element's. */
export function fill(parent: Element, ...children: Child[]): void {
  parent.replaceChildren();
  add(parent, ...children);
}
