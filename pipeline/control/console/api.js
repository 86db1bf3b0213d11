// Requests to the API, with the token of this tab.

const KEPT_AS = "pmdns.token";
const PATIENCE_MS = 5_000;
// The server gives a reload or a purge as long.
const WORK_PATIENCE_MS = 300_000;

/** The API did not do what was asked. `status` 0: there was no answer. */
export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

export const session = {
  token: () => sessionStorage.getItem(KEPT_AS),
  keep: (token) => sessionStorage.setItem(KEPT_AS, token),
  forget: () => sessionStorage.removeItem(KEPT_AS),
};

/** The routes of this build, as `get /api/v1/state`, and the role of the token. */
export const known = { routes: new Set(), role: "read", by: "" };

/** Whether the route exists and the token may use it. */
export function may(route) {
  return known.routes.has(route) && (route.startsWith("get ") || known.role === "operate");
}

/** Finds out what may be asked. */
export async function acquaint() {
  const me = await get("/api/v1/me");
  const { paths } = await get("/api/openapi.json");
  const methods = Object.entries(paths).flatMap(([path, all]) => Object.keys(all).map((method) => `${method} ${path}`));
  known.routes = new Set(methods);
  known.role = me.role;
  known.by = me.by;
}

/** Parameters that are not empty, as the part of an address from `?` on. */
export function parameters(values) {
  const set = Object.entries(values).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return set.length === 0 ? "" : `?${new URLSearchParams(set)}`;
}

export const get = (path) => ask("GET", path);
export const post = (path, body) => ask("POST", path, body);
export const remove = (path) => ask("DELETE", path);

async function ask(method, path, body) {
  const headers = { Authorization: `Bearer ${session.token() ?? ""}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const signal = AbortSignal.timeout(method === "GET" ? PATIENCE_MS : WORK_PATIENCE_MS);
  const request = { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal };
  let answer;
  let value;
  try {
    answer = await fetch(path, { ...request, cache: "no-store", credentials: "omit", redirect: "error" });
    value = await answer.json();
  } catch {
    throw new Refused(0, "there is no answer from the server");
  }
  if (!answer.ok) throw new Refused(answer.status, value.detail ?? `status ${answer.status}`);
  return value;
}
