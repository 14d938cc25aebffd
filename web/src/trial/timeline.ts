// The replay: a slider over all moments of the run, with what happens at the one that is shown.
import { el, fill } from "../shared/dom";
import { count, inline, seconds, short } from "../shared/format";
import type { Trace } from "./data";

const EVERY = 220;
const MOST_ITEMS = 4;

export class Timeline {
  readonly element: HTMLElement;
  private readonly slider: HTMLInputElement;
  private readonly words = el("p", { class: "moment", "aria-live": "polite" });
  private readonly playing: HTMLButtonElement;
  private readonly strip: HTMLElement;
  private timer = 0;
  private turn = 0;

  constructor(
    private readonly trace: Trace,
    private readonly changed: (moment: number) => void,
    label: string,
  ) {
    const last = Math.max(0, trace.momentCount - 1);
    this.slider = el("input", {
      type: "range",
      min: 0,
      max: last,
      value: last,
      "aria-label": `Replay ${label}`,
      oninput: () => {
        this.stop();
        this.changed(this.slider.valueAsNumber);
      },
    });
    this.playing = el("button", { type: "button", onclick: () => this.play() }, "Play");
    const jump = (words: string, title: string, find: () => number) =>
      el("button", { type: "button", title, "aria-label": title, onclick: () => this.go(find()) }, words);
    this.element = el(
      "div",
      { class: "timeline" },
      el(
        "div",
        { class: "row" },
        this.playing,
        jump("‹", "One moment back ( [ )", () => this.moment - 1),
        jump("›", "One moment on ( ] )", () => this.moment + 1),
        jump("⇤", "To the decision before", () => this.next(-1)),
        jump("⇥", "To the next decision", () => this.next(1)),
        el("div", { class: "track" }, this.slider, (this.strip = this.ticks())),
      ),
      this.words,
    );
  }

  get moment(): number {
    return this.slider.valueAsNumber;
  }

  /** Goes to a moment and says so. */
  go(moment: number): void {
    this.stop();
    this.changed(clamp(moment, 0, Number(this.slider.max)));
  }

  /** Shows a moment that was set elsewhere. */
  async show(moment: number): Promise<void> {
    this.slider.value = String(moment);
    const turn = ++this.turn;
    const [head, ...rest] = await describe(this.trace, moment);
    if (turn !== this.turn) return;
    this.slider.setAttribute("aria-valuetext", `${head} ${rest.join(" ")}`);
    fill(this.words, el("strong", {}, head), " ", ...rest);
  }

  /** Marks a moment below the slider. */
  mark(moment: number): void {
    this.strip.querySelector(".differs")?.remove();
    const tick = el("span", { class: "differs" });
    tick.style.left = `${(100 * moment) / Math.max(1, this.trace.momentCount - 1)}%`;
    this.strip.append(tick);
  }

  private play(): void {
    if (this.timer !== 0) {
      this.stop();
      return;
    }
    if (this.moment >= Number(this.slider.max)) this.changed(0);
    this.playing.textContent = "Pause";
    const step = Math.max(1, Math.round(this.trace.momentCount / 400));
    this.timer = window.setInterval(() => {
      if (this.moment >= Number(this.slider.max)) this.stop();
      else this.changed(clamp(this.moment + step, 0, Number(this.slider.max)));
    }, EVERY);
  }

  private stop(): void {
    window.clearInterval(this.timer);
    this.timer = 0;
    this.playing.textContent = "Play";
  }

  private next(way: number): number {
    let at = this.moment + way;
    while (at > 0 && at < this.trace.momentCount - 1 && this.trace.kind(at) !== "decision") at += way;
    return at;
  }

  /** Marks below the slider: decisions and real steps. */
  private ticks(): HTMLElement {
    const strip = el("div", { class: "ticks", "aria-hidden": "true" });
    const last = Math.max(1, this.trace.momentCount - 1);
    let before = -1;
    for (let moment = 0; moment < this.trace.momentCount; moment++) {
      const kind = this.trace.kind(moment);
      if (kind !== "decision" && kind !== "execution") continue;
      const place = Math.round((moment / last) * 400);
      if (place === before) continue;
      before = place;
      const tick = el("span", { class: kind });
      tick.style.left = `${place / 4}%`;
      strip.append(tick);
    }
    return strip;
  }
}

/** What happens at a moment: a head, then words. */
export async function describe(trace: Trace, moment: number): Promise<string[]> {
  if (trace.momentCount === 0) return ["Nothing was recorded to replay."];
  const get = (name: string) => trace.column(`moment_${name}`)[moment];
  const where = `${count(moment + 1)} of ${count(trace.momentCount)}, at ${seconds(get("at"))}`;
  const note = await trace.text(get("note"));
  const told = (): Record<string, unknown> => (note === "" ? {} : (JSON.parse(note) as Record<string, unknown>));
  switch (trace.kind(moment)) {
    case "search":
      return ["A search begins.", `(${where})`];
    case "simulation": {
      const said = note === "" ? "" : `Note: ${note}`;
      return [`Simulation ${short(get("number"))}`, `brings ${short(get("value"))} from its last node on. (${where})`, said];
    }
    case "decision": {
      const left = get("extra") > 0 ? `, ${count(get("extra"))} of them not in the trace` : "";
      return ["Decision", `after ${count(get("number"))} simulations${left}: value ${short(get("value"))}. (${where})`];
    }
    case "execution": {
      const step = told();
      return ["Real step:", `${inline(step.action)}. ${step.obstacle ? inline(step.obstacle) : ""} (${where})`];
    }
    case "belief":
      return ["The belief changes.", `(${where})`];
    case "memory":
      return [`Remembered (${inline(told().kind)}):`, `${inline(told().text)} (${where})`];
    case "subtask": {
      const task = told();
      return ["Subtask:", `${inline(task.subtask ?? "the goal")}: ${inline(task.verdict ?? task.status)}. ${inline(task.reason || "")} (${where})`];
    }
    case "graph": {
      const items = Object.entries(told().items ?? {}) as [string, { known?: unknown }][];
      const said = items.slice(0, MOST_ITEMS).map(([item, belief]) => `${item} ${inline(belief?.known)}`);
      if (items.length > MOST_ITEMS) said.push(`${count(items.length - MOST_ITEMS)} more`);
      return ["The learnt graph changes:", `${said.join(", ")}. (${where})`];
    }
  }
}

const clamp = (value: number, low: number, high: number): number => Math.max(low, Math.min(high, value));
