// TypeScript and CSS → seegrad/static. The same input gives the same bytes: a test rebuilds and compares.
import { build } from "esbuild";

const out = process.argv[2] ?? "../seegrad/static";
const shared = { bundle: true, minify: true, charset: "utf8", target: "es2022", outdir: out, legalComments: "none", logLevel: "warning" };

await build({ ...shared, entryPoints: ["src/widget.ts"], format: "esm" });
await build({ ...shared, entryPoints: ["src/standalone.ts"], format: "iife", globalName: "seegrad" });
await build({ ...shared, entryPoints: ["src/embed.ts"], format: "iife" });
await build({ ...shared, entryPoints: ["src/svg.css", "src/widget.css", "src/site.css"] });
