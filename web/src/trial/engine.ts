// The lane of the engine's time: requests in flight, tokens per second, cached tokens.
import { el, svg } from "../shared/dom";
import { count, seconds, short } from "../shared/format";
import type { Trace } from "./data";

const BINS = 160;
const HIGH = 64;

/** Three lanes over the time of the run; null if no model was asked. */
export function engineLane(trace: Trace): HTMLElement | null {
  if (trace.questionCount === 0) return null;
  const at = trace.column("question_at");
  const took = trace.column("question_seconds");
  let end = 0;
  for (let one = 0; one < at.length; one++) end = Math.max(end, at[one] + took[one]);
  if (!(end > 0)) return null;
  const flight = new Float64Array(BINS);
  const written = new Float64Array(BINS);
  const cached = new Float64Array(BINS);
  const read = new Float64Array(BINS);
  const bin = end / BINS;
  for (let one = 0; one < at.length; one++) {
    const from = Math.max(0, at[one]);
    const to = Math.max(from + 1e-6, at[one] + took[one]);
    for (let place = Math.floor(from / bin); place < BINS && place * bin < to; place++) {
      const share = Math.max(0, Math.min(to, (place + 1) * bin) - Math.max(from, place * bin));
      flight[place] += share / bin;
      written[place] += (trace.column("question_written")[one] * share) / (to - from) / bin;
    }
    const start = Math.min(BINS - 1, Math.floor(from / bin));
    cached[start] += trace.column("question_cached")[one];
    read[start] += trace.column("question_prompt")[one];
  }
  const share = cached.map((tokens, place) => (read[place] > 0 ? tokens / read[place] : 0));
  const total = (values: Float64Array) => values.reduce((sum, value) => sum + value, 0);
  const percent = Math.round((100 * total(cached)) / Math.max(1, total(read)));
  return el(
    "div",
    { class: "lanes" },
    lane("Requests in flight", flight, end, `at most ${short(Math.max(...flight))}`),
    lane("Tokens written per second", written, end, `at most ${short(Math.max(...written))}`),
    lane("Share of prompt tokens from the cache", share, end, `${percent}% of ${count(total(read))}`),
    loads(trace),
  );
}

function lane(title: string, values: Float64Array, end: number, words: string): HTMLElement {
  const most = Math.max(1e-9, ...values);
  const points = Array.from(values, (value, place) => `${place},${HIGH - (value / most) * (HIGH - 4)}`);
  const picture = svg(
    "svg",
    { viewBox: `0 0 ${BINS - 1} ${HIGH}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title} over time, ${words}` },
    svg("polygon", { points: `0,${HIGH} ${points.join(" ")} ${BINS - 1},${HIGH}` }),
  );
  return el(
    "figure",
    {},
    el("figcaption", {}, el("strong", {}, title), el("span", { class: "soft" }, ` ${words}`)),
    picture,
    el("div", { class: "axis soft" }, el("span", {}, "0 s"), el("span", {}, seconds(end))),
  );
}

function loads(trace: Trace): HTMLElement | null {
  const batch = trace.column("load_batch");
  if (batch.length === 0) return null;
  let most = 0;
  let waiting = 0;
  for (let one = 0; one < batch.length; one++) {
    most = Math.max(most, batch[one]);
    waiting = Math.max(waiting, trace.column("load_waiting")[one]);
  }
  const capacity = trace.column("load_capacity")[batch.length - 1];
  return el(
    "p",
    { class: "soft" },
    `Its own reports: at most ${count(most)} of ${count(capacity)} in the batch, ${count(waiting)} waiting.`,
  );
}
