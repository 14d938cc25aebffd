import "../shared/theme.css";
import "../sweep/main.css";
import "./main.css";
import { el, fill, svg } from "../shared/dom";
import { themeButton } from "../shared/theme";
import { clock, count, interval, number, percent } from "../sweep/format";
import { scrolled } from "../sweep/ranking";
import { whisker } from "../sweep/whisker";
import type { LiveData, Load, Process, Row } from "./data";

const AGAIN = 5;
const LISTED = 40;

const title = el("h1", {}, "A sweep");
const state = el("span", { class: "verdict unknown" }, "reading");
const notice = el("div", { role: "status" });
const bar = el("progress", { max: 1, value: 0, "aria-label": "finished trials" });
const facts = el("p", { class: "big" });
const rate = el("div", { class: "card" });
const engine = el("div", { class: "card" });
const outcome = el("div", { class: "card" });
const groups = el("tbody");
const newest = el("tbody");
const rows = new Map<string, HTMLElement>();
const errors = el("section");
let before: { load: Load; at: number } | null = null;

document.body.append(
  el(
    "main",
    {},
    el("header", {}, el("div", {}, title, el("p", {}, state)), themeButton(() => {})),
    notice,
    el("section", { class: "progress" }, facts, bar),
    el("div", { class: "cards" }, outcome, rate, engine),
    el(
      "section",
      {},
      el("h2", {}, "So far"),
      el("p", { class: "soft note" }, "Trials run in the sweep's order, so planners that come later have run less, and on other tasks."),
      scrolled("Rates so far", headed(["planner", "world", "success", "", "trials"], groups)),
    ),
    errors,
    el(
      "section",
      {},
      el("h2", {}, "Newest trials"),
      scrolled("Newest trials", headed(["ended", "planner", "task", "seed", "outcome", "seconds", "tokens", "page"], newest)),
    ),
  ),
);
void follow();

async function follow(): Promise<void> {
  for (;;) {
    let wait = AGAIN;
    // Nobody looks at a hidden page, so it asks nothing.
    if (document.visibilityState === "visible") wait = await look();
    await new Promise((resume) => setTimeout(resume, 1000 * wait));
  }
}

async function look(): Promise<number> {
  try {
    const answer = await fetch("state.json", { cache: "no-store" });
    if (answer.status === 503) {
      const { error } = (await answer.json()) as { error?: string };
      complain(error ?? "The server is busy.");
      return AGAIN;
    }
    if (!answer.ok) {
      complain(await answer.text());
      return AGAIN;
    }
    const data = (await answer.json()) as LiveData;
    fill(notice);
    show(data);
    return data.wait;
  } catch {
    complain("The command that shows this page has ended; what you see is the last that it said.");
    return AGAIN;
  }
}

function complain(said: string): void {
  if (notice.textContent !== said) fill(notice, el("p", { class: "notice" }, said));
}

function show(data: LiveData): void {
  const finished = data.done + data.failed;
  title.textContent = data.name;
  document.title = `${finished}/${data.total} ${data.name}`;
  const [said, look] = stated(data, finished);
  state.textContent = said;
  state.className = `verdict ${look}`;
  bar.max = Math.max(1, data.total);
  bar.value = finished;
  const left = data.process.state === "running" ? data.process.left : null;
  fill(
    facts,
    el("strong", {}, `${finished.toLocaleString("en")} of ${count(data.total, "trial")}`),
    el("span", { class: "soft" }, ` ${percent(data.total === 0 ? 0 : finished / data.total)}`),
    left !== null && finished < data.total && el("span", { class: "soft" }, `, about ${clock(left)} left`),
  );
  results(data);
  speed(data);
  work(data.process);
  soFar(data);
  failures(data);
  list(data.newest);
}

function stated(data: LiveData, finished: number): [string, string] {
  if (finished >= data.total) return ["finished", "good"];
  const said: Record<Process["state"], [string, string]> = {
    running: ["running", "good"],
    silent: ["no word from its process: killed, or hanging", "bad"],
    absent: ["not running, or loading its model", "unknown"],
    unreadable: ["its process cannot be heard", "unknown"],
  };
  return said[data.process.state];
}

function results(data: LiveData): void {
  fill(
    outcome,
    el("h2", {}, "Outcome"),
    pairs([
      ["succeeded", `${data.won.toLocaleString("en")} of ${data.judged.toLocaleString("en")} judged`],
      ["failed", data.failed.toLocaleString("en")],
      ["to be tried again", data.retrying.toLocaleString("en")],
      ["questions", data.spent.calls.toLocaleString("en")],
      ["tokens", (data.spent.prompt_tokens + data.spent.completion_tokens).toLocaleString("en")],
    ]),
  );
}

function speed(data: LiveData): void {
  const { span, over, counts } = data.rate;
  const most = Math.max(1, ...counts);
  const total = counts.reduce((sum, one) => sum + one, 0);
  const picture = svg("svg", { class: "bars", viewBox: `0 0 ${counts.length} 20`, preserveAspectRatio: "none", role: "img" });
  picture.setAttribute("aria-label", `trials that ended, over ${clock(span)}`);
  counts.forEach((n, place) => {
    const height = (19 * n) / most;
    picture.append(svg("rect", { x: place + 0.1, width: 0.8, y: 20 - height, height }));
  });
  fill(
    rate,
    el("h2", {}, "Rate"),
    el("p", {}, el("strong", {}, number((60 * total) / over)), ` trials a minute over ${clock(over)}`),
    picture,
  );
}

function work(process: Process): void {
  if (process.state === "absent" || process.state === "unreadable") {
    const said = process.state === "unreadable" ? process.said : "No process says what its engine does.";
    fill(engine, el("h2", {}, "Engine"), el("p", { class: "soft" }, said));
    before = null;
    return;
  }
  const { load } = process;
  // The process has said nothing new since the last look.
  if (before?.at === process.written) return;
  const written = load.written_tokens - (before?.load.written_tokens ?? load.written_tokens);
  const passed = process.written - (before?.at ?? process.written);
  const tokens = passed > 0 && written >= 0 ? `${number(written / passed)} tokens/s` : "–";
  before = { load, at: process.written };
  const stepping = load.stepping_seconds + load.waiting_seconds;
  fill(
    engine,
    el("h2", {}, "Engine"),
    pairs([
      ["trials in flight", String(process.running)],
      ["requests in batch", `${load.running}${load.waiting > 0 ? `, ${load.waiting} waiting` : ""}`],
      ["writes", tokens],
      ["prefix cache", load.prompt_tokens > 0 ? percent(load.cached_tokens / load.prompt_tokens) : "–"],
      ["busy", stepping > 0 ? percent(load.stepping_seconds / stepping) : "–"],
      process.retried > 0 && ["retried", String(process.retried)],
      process.lost > 0 && ["lost with a worker", String(process.lost)],
      load.preempted > 0 && ["preempted", String(load.preempted)],
    ]),
  );
}

function soFar(data: LiveData): void {
  const order = [...data.groups].sort(
    (one, other) => one.domain.localeCompare(other.domain) || (other.value ?? -1) - (one.value ?? -1),
  );
  fill(
    groups,
    ...order.map((group) => {
      const estimate = { ...group, n: group.judged, method: "" };
      const share = group.value === null ? "not judged" : percent(group.value);
      return el(
        "tr",
        {},
        el("th", { scope: "row" }, group.planner),
        el("td", {}, group.domain),
        el("td", { class: "picture" }, whisker(estimate)),
        el("td", {}, share, el("span", { class: "bounds" }, ` ${interval(estimate, percent)}`)),
        el("td", { class: "number" }, `${group.done} done${group.failed > 0 ? `, ${group.failed} failed` : ""}`),
      );
    }),
  );
}

function failures(data: LiveData): void {
  if (data.errors.length === 0) {
    fill(errors);
    return;
  }
  fill(
    errors,
    el("h2", {}, "Why trials failed"),
    el("ul", { class: "errors" }, ...data.errors.map(([text, n]) => el("li", {}, `${n} × `, el("code", {}, text)))),
    data.other_errors > 0 && el("p", { class: "soft" }, count(data.other_errors, "other error")),
  );
}

/** Adds the new rows above those that are there, so that the focus stays where it is. */
function list(found: Row[]): void {
  for (const row of [...found].reverse()) {
    if (rows.has(row.key)) continue;
    const made = listed(row);
    rows.set(row.key, made);
    newest.prepend(made);
  }
  while (rows.size > LISTED) {
    const [key, oldest] = rows.entries().next().value as [string, HTMLElement];
    oldest.remove();
    rows.delete(key);
  }
}

function listed(row: Row): HTMLElement {
  const [said, look] =
    row.status === "failed"
      ? ["failed", "bad"]
      : row.success === null
        ? ["not judged", "unknown"]
        : row.success
          ? ["success", "good"]
          : ["no success", "bad"];
  return el(
    "tr",
    {},
    el("td", {}, new Date(1000 * row.ended).toLocaleTimeString()),
    el("td", {}, row.planner),
    el("td", {}, row.task),
    el("td", { class: "number" }, row.seed),
    el(
      "td",
      {},
      el("span", { class: `verdict ${look}` }, said),
      row.error !== null && el("span", { class: "error", title: row.error }, ` ${row.error}`),
    ),
    el("td", { class: "number" }, number(row.seconds)),
    el("td", { class: "number" }, row.tokens.toLocaleString("en")),
    el(
      "td",
      {},
      row.traced
        ? el("a", { href: `trials/${row.key}.html`, target: "_blank", "aria-label": `open the page of trial ${row.key.slice(0, 8)}` }, "open")
        : "–",
    ),
  );
}

function headed(names: string[], body: HTMLElement): HTMLElement {
  const numeric = new Set(["seed", "seconds", "tokens", "trials"]);
  return el(
    "table",
    { class: "ranking trials" },
    el(
      "thead",
      {},
      el("tr", {}, ...names.map((name) => (name === "" ? el("td") : el("th", { scope: "col", class: numeric.has(name) ? "number" : null }, name)))),
    ),
    body,
  );
}

function pairs(found: ([string, string] | false)[]): HTMLElement {
  const shown = found.filter((one) => one !== false);
  return el("dl", {}, ...shown.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}
