// What a drawn tree is made of, whoever its nodes are: of a search, or DRIP's subtasks.

export interface Shape {
  /** Number of nodes. */
  size: number;
  /** The node above each, or -1. */
  parent: Int32Array;
  label(node: number): string;
  /** What is written behind the label, if it is selected. */
  detail(node: number): string;
  /** Whether it exists at the moment that is shown. */
  exists(node: number): boolean;
  /** From 0 to 1: how wide its line is. */
  weight(node: number): number;
  /** Place of its colour on the palette's scale, or a name of a colour of the palette. */
  colour(node: number): number | "good" | "bad" | "faint";
  /** Which of two siblings comes first when few are shown. */
  importance(node: number): number;
}

export interface Placed {
  /** Places by node; NaN if it is folded away. */
  x: Float32Array;
  y: Float32Array;
  depth: Uint16Array;
  /** Nodes of each depth, from top to bottom. */
  levels: Uint32Array[];
  top: number;
  bottom: number;
}
