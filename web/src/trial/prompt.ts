// One question: its exact prompt with the fixed, the cached and the new part told apart, the answer.
import { add, el } from "../shared/dom";
import { count, counted, seconds, short } from "../shared/format";
import type { Question, Trace } from "./data";

const HINTS = {
  fixed: "fixed: the same for all questions with these instructions",
  cached: "cached: read from the prefix cache",
  fresh: "new: the model had to read it",
};

/** A question as a folded element; it is unpacked when it is opened. */
export function question(trace: Trace, at: number, open = false): HTMLElement {
  const get = (name: string) => trace.column(`question_${name}`)[at];
  const role = trace.string(get("role"));
  const about = trace.string(get("about"));
  const replayed = get("replayed") > 0;
  const body = el("div", { class: "question-body" });
  const details = el(
    "details",
    { class: "question", open },
    el(
      "summary",
      {},
      el("strong", {}, role || "question"),
      about && ` · ${about}`,
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
  const shared = typeof value.shared?.tokens === "number" ? value.shared : undefined;
  // The requests for choices are counted together: they say nothing of one prompt.
  const together = Array.isArray(value.choices);
  const total = shared?.tokens ?? get("prompt");
  const cached = Math.min(shared?.cached_tokens ?? get("cached"), total);
  const fixed = typeof system?.tokens === "number" ? Math.min(system.tokens, total) : 0;
  add(
    body,
    el("p", { class: "soft" }, `Asked of ${trace.string(get("model")) || "a model"}`, temperature(value)),
    (shared !== undefined || !together) && shares(fixed, cached, total),
    together && el("p", { class: "soft" }, requests(shared?.requests, get("prompt"), get("cached"))),
  );
  const turns = Array.isArray(value.turns) ? value.turns : [];
  const text = el("div", { class: "prompt", tabindex: 0, role: "region", "aria-label": "The prompt" });
  if (typeof system?.text === "string") {
    text.append(turn("system", [el("mark", { class: "fixed" }, system.text)]));
  }
  const ends = cachedEnds(turns.map((one) => String(one.text)), value);
  turns.forEach((one, place) => {
    const said = String(one.text);
    const before = said.slice(0, ends?.[place]);
    text.append(
      turn(one.role ?? "text", [
        ends === null ? said : before && el("mark", { class: "cached" }, before),
        ends !== null && said.length > before.length && el("mark", { class: "fresh" }, said.slice(before.length)),
        one.images ? el("em", {}, ` (${one.images} images)`) : null,
      ]),
    );
  });
  if (value.end_unknown) {
    const unknown = "Where the cached part ends in the text is not known";
    body.append(el("p", { class: "soft" }, `${unknown}: ${value.end_unknown}.`));
  }
  if (turns.length === 0 && system === undefined) {
    text.append(el("p", { class: "soft" }, "The trace knows only the tokens of this prompt."));
  }
  body.append(text, answer(value));
}

/** Where the cached part ends in each turn; null if nobody knows. */
function cachedEnds(texts: string[], value: Question): number[] | null {
  if (!Array.isArray(value.cached_end)) return null;
  const [message, character] = value.cached_end;
  const systems = value.system ? 1 : 0;
  return texts.map((text, place) => {
    if (place + systems !== message) return place + systems < message ? text.length : 0;
    return units(text, character);
  });
}

/** Characters of a text as the units that JavaScript counts. */
function units(text: string, characters: number): number {
  let at = 0;
  for (let one = 0; one < characters && at < text.length; one++) at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
  return at;
}

function requests(number: number | undefined, read: number, cached: number): string {
  const all = number === undefined ? "All requests for its choices" : `Its ${counted(number, "request")} to the model`;
  return `${all} read ${count(read)} tokens in all, ${count(cached)} of them cached.`;
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
