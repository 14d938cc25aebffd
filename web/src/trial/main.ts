import "../shared/theme.css";
import { readJson } from "../shared/blocks";
import { el } from "../shared/dom";
import { themeButton } from "../shared/theme";

const about = await_about();
async function await_about() {
  return readJson<Record<string, unknown>>("about");
}
void about.then((value) => {
  document.body.append(el("main", {}, el("pre", {}, JSON.stringify(value, null, 1))), themeButton(() => {}));
});
