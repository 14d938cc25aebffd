// Colours of the canvas. Each has a contrast of at least 3:1 with the ground of its theme.

const LOW_TO_HIGH = {
  light: ["#3f6fb5", "#4f7aa8", "#6a7f96", "#857f80", "#a07a5c", "#b3703a", "#b85c14"],
  dark: ["#5b9bf0", "#74a5dc", "#8eafc8", "#a9aeb0", "#c7ad8c", "#e0a866", "#f2a14a"],
};

const STEPS = LOW_TO_HIGH.light.length;

export interface Palette {
  ground: string;
  raised: string;
  ink: string;
  soft: string;
  faint: string;
  accent: string;
  good: string;
  bad: string;
  scale: string[];
}

/** The colours of the theme that is shown. */
export function palette(): Palette {
  const style = getComputedStyle(document.documentElement);
  const get = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const dark = document.documentElement.dataset.theme === "dark";
  return {
    ground: get("raised"),
    raised: get("raised"),
    ink: get("ink"),
    soft: get("ink-soft"),
    faint: get("line-strong"),
    accent: get("accent"),
    good: get("good"),
    bad: get("bad"),
    scale: dark ? LOW_TO_HIGH.dark : LOW_TO_HIGH.light,
  };
}

/** The place of a value on the scale from the lowest to the highest. */
export function step(value: number, low: number, high: number): number {
  if (!(high > low)) return STEPS >> 1;
  const share = (value - low) / (high - low);
  return Math.max(0, Math.min(STEPS - 1, Math.round(share * (STEPS - 1))));
}
