// One question: its exact prompt with the fixed, the cached and the new part told apart, the answer.
import { el } from "../shared/dom";
import { count, seconds, short } from "../shared/format";
import type { Question, Trace } from "./data";

const HINTS = {
  fixed: "fixed: the same for all questions with these instructions",
  cached: "cached: read from the prefix cache; in the text, its end is about there",
  fresh: "new: the model had to read it",
};

/** A question as a folded element; it is unpacked when it is opened. */
export function question(trace: Trace, at: number, open = false): HTMLElement {
  const get = (name: string) => trace.column(`question_${name}`)[at];
  const role = trace.string(get("role"));
  const replayed = get("replayed") > 0;
  const body = el("div", { class: "question-body" });
  const details = el(
    "details",
    { class: "question", open },
    el(
      "summary",
      {},
      el("strong", {}, role || "question"),
      ` · ${count(get("prompt"))} + ${count(get("written"))} tokens · `,
      replayed ? "replayed" : seconds(get("seconds")),
    ),
    body,
  );
  const show = async () => {
    if (!details.open || body.childElementCount > 0) return;
    const value = (await trace.json<Question>(get("body"))) ?? {};
    if (body.childElementCount === 0) fillIn(body, trace, at, value);
  };
  details.addEventListener("toggle", () => void show());
  if (open) void show();
  return details;
}

function fillIn(body: HTMLElement, trace: Trace, at: number, value: Question): void {
  const get = (name: string) => trace.column(`question_${name}`)[at];
  const system = value.system ? trace.about.prompts[value.system] : undefined;
  const total = get("prompt");
  const known = typeof system?.tokens === "number" ? Math.min(system.tokens, total) : null;
  const cached = Math.min(get("cached"), total);
  body.append(
    el("p", { class: "soft" }, `Asked of ${trace.string(get("model")) || "a model"}`, temperature(value)),
    shares(known ?? 0, cached, total),
  );
  const turns = Array.isArray(value.turns) ? value.turns : [];
  const text = el("div", { class: "prompt", tabindex: 0, role: "region", "aria-label": "The prompt" });
  if (typeof system?.text === "string") {
    text.append(turn("system", [el("mark", { class: "fixed" }, system.text)]));
  }
  const fixedTokens = known ?? 0;
  const rest = turns.reduce((sum, one) => sum + String(one.text).length, 0);
  const share = total > fixedTokens ? Math.max(0, cached - fixedTokens) / (total - fixedTokens) : 0;
  let left = Math.round(rest * share);
  for (const one of turns) {
    const said = String(one.text);
    const before = said.slice(0, left);
    left = Math.max(0, left - said.length);
    text.append(
      turn(one.role ?? "text", [
        before && el("mark", { class: "cached" }, before),
        said.length > before.length && el("mark", { class: "fresh" }, said.slice(before.length)),
        one.images ? el("em", {}, ` (${one.images} images)`) : null,
      ]),
    );
  }
  if (turns.length === 0 && system === undefined) {
    text.append(el("p", { class: "soft" }, "The trace knows only the tokens of this prompt."));
  }
  body.append(text, answer(value));
}

function temperature(value: Question): string {
  return value.temperature === undefined || value.temperature === null
    ? ""
    : `, temperature ${short(Number(value.temperature))}`;
}

function turn(role: string, parts: (Node | string | null | false)[]): HTMLElement {
  return el("div", { class: "turn" }, el("span", { class: "turn-role" }, role), el("div", { class: "turn-text" }, ...parts));
}

function shares(fixed: number, cached: number, total: number): HTMLElement {
  const parts: [keyof typeof HINTS, string, number][] = [
    ["fixed", "fixed", fixed],
    ["cached", "of all, cached", cached],
    ["fresh", "new", Math.max(0, total - cached)],
  ];
  return el(
    "ul",
    { class: "shares" },
    ...parts.map(([name, words, tokens]) =>
      el("li", { title: HINTS[name] }, el("span", { class: `swatch ${name}` }), `${count(tokens)} ${words}`),
    ),
  );
}

function answer(value: Question): HTMLElement {
  if (Array.isArray(value.choices)) {
    const odds = value.choices.map((choice, at) => [choice, Number(value.logprobs?.[at])] as const);
    odds.sort((a, b) => b[1] - a[1]);
    return el(
      "table",
      { class: "scores" },
      el("caption", { class: "soft" }, "Scores of the choices, in nats"),
      ...odds.map(([choice, odd]) =>
        el("tr", {}, el("td", {}, String(choice)), el("td", { class: "number" }, short(odd))),
      ),
    );
  }
  const said = typeof value.answer === "string" ? value.answer : "";
  return el(
    "div",
    { class: "turn answer" },
    el("span", { class: "turn-role" }, value.finish === "length" ? "answer, cut off" : "answer"),
    el("div", { class: "turn-text" }, pretty(said) || el("em", {}, "empty")),
  );
}

/** JSON with line breaks, anything else as it is. */
function pretty(text: string): string {
  if (!text.startsWith("{") && !text.startsWith("[")) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
