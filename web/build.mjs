// Builds the pages: `node build.mjs [FOLDER]`, by default into the package. Every folder of `src`
// with a `main.ts` is a page: one script and one style sheet.
import { existsSync, readdirSync } from "node:fs";
import { copyFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "..", "llm_planning", "viewer", "pages");
const pages = readdirSync(join(here, "src")).filter((name) =>
  existsSync(join(here, "src", name, "main.ts")),
);

await build({
  absWorkingDir: here,
  entryPoints: Object.fromEntries(pages.map((name) => [name, `src/${name}/main.ts`])),
  outdir: out,
  bundle: true,
  minify: true,
  format: "iife",
  target: ["chrome111", "firefox115", "safari16.4"],
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
});
await copyFile(join(here, "node_modules/d3-hierarchy/LICENSE"), join(out, "d3-hierarchy.LICENSE"));
