// How the console is built, and how it is served while it is written.
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";
import { finish } from "./build/finish.ts";

const server = process.env.PUNCTUAL_URL ?? "http://127.0.0.1:7070";

export default defineConfig({
  plugins: [react(), finish()],
  build: {
    target: "es2022",
    // Nothing is put into the page itself: the policy of the page allows no inline code and no data: addresses.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    cssTarget: ["chrome123", "firefox121", "safari17.5"],
    sourcemap: false,
  },
  server: { proxy: { "/api": server, "/openapi.json": server, "/healthz": server, "/readyz": server } },
  test: { environment: "node", include: ["src/**/*.test.ts"] },
} as Parameters<typeof defineConfig>[0]);
