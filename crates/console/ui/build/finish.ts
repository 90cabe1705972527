// What happens to the files after Vite made them: each gets its compressed twins, and the first load is weighed.
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import type { Plugin, Rollup } from "vite";

/** How much script may be needed before the first screen, compressed. */
const FIRST_LOAD_MAX = 150 * 1024;

const COMPRESSED = /\.(html|js|css|svg|json)$/;

export function finish(): Plugin {
  let folder = "dist";
  return {
    name: "punctual-finish",
    apply: "build",
    configResolved(config) {
      folder = config.build.outDir;
    },
    writeBundle(_options, bundle) {
      const bytes = firstLoad(bundle);
      this.info(`first load: ${(bytes / 1024).toFixed(1)} KB of script, gzip`);
      if (bytes > FIRST_LOAD_MAX) {
        this.error(`the first load needs ${bytes} bytes of script, more than ${FIRST_LOAD_MAX}; load a part of it later`);
      }
      for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
        if (COMPRESSED.test(name)) compress(join(folder, name));
      }
    },
  };
}

/** The entry and everything it imports at once, gzip. */
function firstLoad(bundle: Rollup.OutputBundle): number {
  const seen = new Set<string>();
  const visit = (name: string): number => {
    const chunk = bundle[name];
    if (seen.has(name) || chunk?.type !== "chunk") return 0;
    seen.add(name);
    return chunk.imports.reduce((sum, next) => sum + visit(next), gzipSync(chunk.code).length);
  };
  const entries = Object.values(bundle).filter((chunk) => chunk.type === "chunk" && chunk.isEntry);
  return entries.reduce((sum, chunk) => sum + visit(chunk.fileName), 0);
}

function compress(path: string): void {
  const raw = readFileSync(path);
  const quality = { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } };
  writeFileSync(`${path}.br`, brotliCompressSync(raw, quality));
  writeFileSync(`${path}.gz`, gzipSync(raw, { level: 9 }));
}
