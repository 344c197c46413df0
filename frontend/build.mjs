// TypeScript and CSS → seegrad/static. The same input gives the same bytes: a test rebuilds and compares.
import { writeFile } from "node:fs/promises";
import { build } from "esbuild";
import { minify } from "terser";

const out = process.argv[2] ?? "../seegrad/static";
const shared = { bundle: true, minify: true, charset: "utf8", target: "es2022", outdir: out, legalComments: "none", logLevel: "warning" };

/** esbuild bundles, terser makes it smaller still. What is switched off only looks shorter, and is longer when zipped. */
async function script(entry, options) {
  const { outputFiles: [made] } = await build({ ...shared, ...options, entryPoints: [entry], write: false });
  const { code } = await minify(made.text, { compress: { passes: 3, conditionals: false, lhs_constants: false }, ecma: 2022, module: options.format === "esm" });
  await writeFile(made.path, `${code}\n`);
}

await script("src/widget.ts", { format: "esm" });
await script("src/standalone.ts", { format: "iife", globalName: "seegrad" });
await script("src/embed.ts", { format: "iife" });
await script("src/switches.ts", { format: "iife" });
await build({ ...shared, entryPoints: ["src/style/svg.css", "src/style/heat.css", "src/style/widget.css", "src/style/site.css", "src/style/switches.css"] });
