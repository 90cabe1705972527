// The signed-in person, and how requests are authenticated: by a cookie where the server gives one, else by a token
// that the tab keeps.
import { useSyncExternalStore } from "react";
import type { Role, Session } from "./types";

const TOKEN = "punctual.token";
const ORDER: Role[] = ["viewer", "operator", "editor", "admin"];

export type SignedIn =
  /** Not known yet. */
  | { kind: "asking" }
  | { kind: "out" }
  | { kind: "in"; session: Session }
  /** Was signed in and is no longer. What is on the screen stays there. */
  | { kind: "ended"; session: Session };

let state: SignedIn = { kind: "asking" };
const listeners = new Set<() => void>();

function become(next: SignedIn): void {
  state = next;
  for (const listener of listeners) listener();
}

export function useSignedIn(): SignedIn {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => state,
  );
}

/** The token that requests carry; none where a cookie does it. */
export function bearer(): string | null {
  return sessionStorage.getItem(TOKEN);
}

/** Called when a request is refused because the session has ended. */
export function sessionEnded(): void {
  if (state.kind === "in") become({ kind: "ended", session: state.session });
}

/** Whether a role may do what another is needed for. */
export function reaches(role: Role, needed: Role): boolean {
  return ORDER.indexOf(role) >= ORDER.indexOf(needed);
}

/** Whether the person may do what needs this role. */
export function useMay(needed: Role): boolean {
  const signedIn = useSignedIn();
  return (signedIn.kind === "in" || signedIn.kind === "ended") && reaches(signedIn.session.role, needed);
}

export function useReachesAll(): boolean {
  const signedIn = useSignedIn();
  return (signedIn.kind === "in" || signedIn.kind === "ended") && signedIn.session.apps.includes("*");
}

/** Looks whether the tab or the browser still has a session. */
export async function resume(): Promise<void> {
  const token = bearer();
  try {
    const session = await whoAmI(token);
    become(session ? { kind: "in", session } : { kind: "out" });
  } catch {
    become({ kind: "out" });
  }
}

/** Signs in; says whether the token opens anything. Throws if the server cannot be asked. */
export async function signIn(token: string): Promise<"in" | "refused" | "throttled"> {
  const response = await fetch("/api/v1/session", {
    method: "POST",
    headers: { "Content-Type": "application/json", Accept: "application/json" },
    body: JSON.stringify({ token }),
    credentials: "same-origin",
  });
  if (response.status === 429) return "throttled";
  const isCookie = response.ok;
  if (!isCookie && response.status !== 404 && response.status !== 405) return "refused";
  const session = await whoAmI(isCookie ? null : token);
  if (!session) return "refused";
  if (isCookie) sessionStorage.removeItem(TOKEN);
  else sessionStorage.setItem(TOKEN, token);
  become({ kind: "in", session });
  return "in";
}

export async function signOut(): Promise<void> {
  sessionStorage.removeItem(TOKEN);
  await fetch("/api/v1/session", { method: "DELETE", credentials: "same-origin" }).catch(() => undefined);
  become({ kind: "out" });
}

async function whoAmI(token: string | null): Promise<Session | null> {
  const ask = (path: string, init: RequestInit = {}) =>
    fetch(`/api/v1${path}`, {
      ...init,
      credentials: "same-origin",
      headers: { "Content-Type": "application/json", ...(token ? { Authorization: `Bearer ${token}` } : {}) },
    });
  const response = await ask("/session");
  if (response.ok) return response.json();
  if (response.status !== 404 && response.status !== 405) return null;
  return token ? probed(ask) : null;
}

/** What a token may do, where the server does not say: asked with questions that change nothing. */
async function probed(ask: (path: string, init?: RequestInit) => Promise<Response>): Promise<Session | null> {
  const seen = await ask("/stats");
  if (!seen.ok) return null;
  const whole = await ask("/nodes");
  const apps = whole.ok ? ["*"] : [];
  const refuses = async (path: string, init?: RequestInit) => (await ask(path, init)).status === 403;
  if (!(await refuses("/tokens"))) return { role: "admin", apps };
  if (!(await refuses("/jobs?dry_run=true", { method: "POST", body: "{}" }))) return { role: "editor", apps };
  const nothing = JSON.stringify({ filter: { key: "-", state: "pending" }, dry_run: true });
  if (!(await refuses("/runs/cancel", { method: "POST", body: nothing }))) return { role: "operator", apps };
  return { role: "viewer", apps };
}
