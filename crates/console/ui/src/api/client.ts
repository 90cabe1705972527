// Asking the server: one function for every request, and one error for every refusal.
import type { FieldError, ProblemBody } from "./types";
import { bearer, sessionEnded } from "./session";

/** Why a request was not carried out, with what is needed to find it in the server's log. */
export class Refusal extends Error {
  readonly status: number;
  readonly title: string;
  readonly detail: string;
  readonly errors: FieldError[];
  readonly requestId: string | null;

  constructor(body: ProblemBody, requestId: string | null) {
    super(body.detail || body.title);
    this.status = body.status;
    this.title = body.title;
    this.detail = body.detail;
    this.errors = body.errors ?? [];
    this.requestId = body.request_id ?? requestId;
  }
}

/** The status of a request that nobody answered. */
export const UNREACHABLE = 0;

export interface Asked {
  method?: string;
  body?: unknown;
  ifMatch?: number | undefined;
  accept?: string;
  signal?: AbortSignal | undefined;
  headers?: Record<string, string>;
}

export async function send(path: string, asked: Asked = {}): Promise<Response> {
  const headers: Record<string, string> = { Accept: asked.accept ?? "application/json", ...asked.headers };
  const token = bearer();
  if (token) headers.Authorization = `Bearer ${token}`;
  if (asked.body !== undefined) headers["Content-Type"] = "application/json";
  if (asked.ifMatch !== undefined) headers["If-Match"] = `"${asked.ifMatch}"`;
  const body = asked.body === undefined ? null : JSON.stringify(asked.body);
  const method = asked.method ?? "GET";
  let response: Response;
  try {
    response = await fetch(`/api/v1${path}`, {
      method, headers, body, signal: asked.signal ?? null, credentials: "same-origin", cache: "no-store",
    });
  } catch (error) {
    if (asked.signal?.aborted) throw error;
    throw new Refusal({ title: "", detail: "", status: UNREACHABLE }, null);
  }
  if (!response.ok) {
    const refusal = await read(response);
    if (refusal.status === 401) sessionEnded();
    throw refusal;
  }
  return response;
}

async function read(response: Response): Promise<Refusal> {
  const requestId = response.headers.get("x-request-id");
  try {
    return new Refusal({ ...(await response.json()), status: response.status }, requestId);
  } catch {
    const said = { title: response.statusText, detail: "", status: response.status };
    return new Refusal(said, requestId);
  }
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await send(path, { signal })).json();
}

/** A request that changes something; its answer, or nothing where there is none. */
export async function change<T>(method: string, path: string, body?: unknown, ifMatch?: number): Promise<T> {
  const response = await send(path, { method, body, ifMatch });
  const text = await response.text();
  return (text ? JSON.parse(text) : undefined) as T;
}

/** A query string of what is set. */
export function query(params: Record<string, string | number | boolean | null | undefined>): string {
  const set = Object.entries(params).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(set.map(([name, value]) => [name, String(value)])).toString();
  return text ? `?${text}` : "";
}
