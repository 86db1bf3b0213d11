// Requests to the API, with the token of this tab.

const KEPT_AS = "pmdns.token";
// Seconds that the server takes for a request at most (pipeline/control/src/api/).
const PATIENCE_S = { known: 10, log: 20, lookup: 60, work: 300 };
// After them it says why there is no answer, and that has to arrive.
const GRACE_S = 1;
// What is first after `/api/v1/` in changes that are work.
const WORK = ["reload", "purge", "upstreams", "lists"];

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

// Each may do what those before it may.
const ROLES = ["figures", "read", "operate"];

/** The routes of this build, as `get /api/v1/state`, with the role that each needs, and the role of the token. */
export const known = { routes: new Map(), role: "figures", by: "" };

/** Whether the route exists and the token may use it. */
export function may(route) {
  return known.routes.has(route) && ROLES.indexOf(known.role) >= ROLES.indexOf(known.routes.get(route));
}

/** Finds out what may be asked. */
export async function acquaint() {
  const me = await get("/api/v1/me");
  const { paths } = await get("/api/openapi.json");
  const routes = Object.entries(paths).flatMap(([path, all]) => (
    Object.entries(all).map(([method, operation]) => [`${method} ${path}`, operation["x-role"] ?? "operate"])));
  known.routes = new Map(routes);
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
export const patch = (path, body) => ask("PATCH", path, body);
export const remove = (path) => ask("DELETE", path);

/** Seconds after which there will be no answer. */
function patienceFor(method, path) {
  const [what] = path.replace("/api/v1/", "").split(/[/?]/);
  const isWork = method !== "GET" && WORK.includes(what);
  return (isWork ? PATIENCE_S.work : PATIENCE_S[what] ?? PATIENCE_S.known) + GRACE_S;
}

async function ask(method, path, body) {
  const headers = { Authorization: `Bearer ${session.token() ?? ""}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const patience = patienceFor(method, path);
  const signal = AbortSignal.timeout(patience * 1000);
  const request = { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal };
  let answer;
  let value;
  try {
    answer = await fetch(path, { ...request, cache: "no-store", credentials: "omit", redirect: "error" });
    value = await answer.json();
  } catch (error) {
    const isLate = error.name === "TimeoutError";
    throw new Refused(0, isLate ? `no answer came within ${patience} s` : "there is no answer from the server");
  }
  if (!answer.ok) throw new Refused(answer.status, value.detail ?? `status ${answer.status}`);
  return value;
}
