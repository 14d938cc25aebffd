// Dark and light: what the system says, until the reader chooses.
import { el } from "./dom";

const KEY = "llm-planning theme";

/** Applies the theme, and returns the button that changes it; `changed` is told afterwards. */
export function themeButton(changed: () => void): HTMLButtonElement {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let chosen = remembered();
  const now = () => chosen ?? (dark.matches ? "dark" : "light");
  const button = el("button", {
    type: "button",
    onclick: () => {
      chosen = now() === "dark" ? "light" : "dark";
      remember(chosen);
      apply();
    },
  });
  const apply = () => {
    document.documentElement.dataset.theme = now();
    button.textContent = now() === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", `Use ${now() === "dark" ? "light" : "dark"} colours`);
    changed();
  };
  dark.addEventListener("change", apply);
  apply();
  return button;
}

// A page from disk may have no storage; then the choice lasts as long as the page.
function remembered(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function remember(theme: string): void {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // See above.
  }
}
