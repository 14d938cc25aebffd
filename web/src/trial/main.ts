import "../shared/theme.css";
import "./trial.css";
import { readJson } from "../shared/blocks";
import { el } from "../shared/dom";
import { themeButton } from "../shared/theme";
import { difference, type Difference } from "./compare";
import { readTrace } from "./data";
import { TraceView } from "./view";

interface Page {
  traces: number;
  difference: Difference | null;
}

const views: TraceView[] = [];

async function open(): Promise<void> {
  const main = el("main", {});
  const theme = themeButton(() => views.forEach((view) => view.repaint()));
  theme.classList.add("theme");
  document.body.append(theme, main);
  try {
    const page = (await readJson<Page>("page")) as Page;
    for (let place = 0; place < page.traces; place++) {
      views.push(new TraceView(await readTrace(place), page.traces > 1 ? `${"ab"[place]}.` : ""));
    }
    if (page.traces > 1) {
      main.classList.add("pair");
      const show = () =>
        page.difference?.moments.forEach((moment, at) => moment >= 0 && views[at].showDifference(moment));
      main.append(difference(page.difference, show));
      if (location.hash === "") show();
    }
    main.append(...views.map((view) => view.element));
    addEventListener("hashchange", () => views.forEach((view) => view.follow()));
    document.documentElement.dataset.ready = "yes";
  } catch (error) {
    main.append(el("p", { class: "notice", role: "alert" }, `This page cannot be shown: ${String(error)}`));
    throw error;
  }
}

void open();
