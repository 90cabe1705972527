// The start of the console.
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { once } from "./api/queries";
import { resume } from "./api/session";
import { Console } from "./Console";
import { applyLook } from "./shell/theme";
import { loadWords } from "./words";

const queries = new QueryClient({
  defaultOptions: { queries: { staleTime: 5_000, retry: once, refetchOnWindowFocus: true } },
});

async function start(): Promise<void> {
  applyLook();
  await loadWords();
  const root = document.getElementById("root");
  if (!root) return;
  void resume();
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={queries}><Console /></QueryClientProvider>
    </StrictMode>,
  );
}

void start();
